#!/usr/bin/env bash
# Two hosts on one machine, each a network and a UTS namespace, joined by a virtual cable; mpiexec starts two ranks on
# each. hsdp with the default group size (the ranks per node) must give the bits of one host that is taken for two
# nodes (grid.ranks_per_node = 2). A trace compares their clocks, which are one. Then two ranks on the first host and
# one on the second: hosts that are not alike share their cores differently, and still give the bits of one. Needs root;
# 77 (skipped) where namespaces are not allowed.
#
#   two_hosts.sh TESSERA MPIEXEC
set -euo pipefail
tessera=$(realpath "$1")
mpiexec=$2

skip() { echo "skipped: $1"; exit 77; }

[[ $(id -u) -eq 0 ]] || skip "namespaces of networks need root"
for tool in ip unshare nsenter h5dump; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done

folder=$(mktemp -d)
holders=() # a sleeping process for each host, whose namespaces are the host
end() {
  [[ ${#holders[@]} -eq 0 ]] || kill "${holders[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT

# open_host NAME: makes new namespaces for a new process in `holders`.
open_host() {
  unshare --net --uts sh -c "hostname $1 && exec sleep 600" &
  local pid=$! tries
  holders+=("$pid")
  for tries in {1..50}; do
    [[ $(nsenter --target "$pid" --uts hostname 2>/dev/null) == "$1" ]] && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  skip "this system allows no namespaces of networks"
}
on() { nsenter --target "$1" --net --uts "${@:2}"; }

open_host tessera-one
open_host tessera-two
ip link add name tess0 netns "${holders[0]}" type veth peer name tess0 netns "${holders[1]}" ||
  skip "this system allows no virtual cable"
for host in 0 1; do
  on "${holders[host]}" ip link set lo up
  on "${holders[host]}" ip address add "10.97.0.$((host + 1))/24" dev tess0
  on "${holders[host]}" ip link set tess0 up
done

# The program that mpiexec calls instead of ssh: AGENT [-option...] ADDRESS COMMAND...
cat >"$folder/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
pids=(${holders[*]})
address=\$1
shift
exec nsenter --target "\${pids[\${address##*.} - 1]}" --net --uts /bin/bash -c "\$*"
AGENT
chmod +x "$folder/agent"

run=(--model.layers=2 --model.width=32 --model.heads=2 --model.context=32 --train.micro_batch=1 --train.steps=10
  --data.synthetic_tokens=5000 --shard.strategy=hsdp --train.accumulation=2 --run.timeout=60)

cd "$folder"
network=10.97.0.0/24
# train_on_hosts RANKS RANKS OPTION...: trains on so many ranks of each host.
train_on_hosts() {
  on "${holders[0]}" "$mpiexec" --mca plm rsh --mca plm_rsh_agent "$folder/agent" --mca oob_tcp_if_include "$network" \
    --mca btl_tcp_if_include "$network" --host "10.97.0.1:$1,10.97.0.2:$2" -n $(($1 + $2)) "$tessera" train "${run[@]}" "${@:3}"
}
# same_series RUN RUN: the two runs have the same bits.
same_series() {
  local series where
  for series in /steps/loss /steps/grad_norm /eval/loss; do
    for where in "$1" "$2"; do h5dump -d "$series" -b LE -o "$where.bin" "$where/metrics.h5" >/dev/null; done
    [[ -s $1.bin ]] && cmp "$1.bin" "$2.bin" || { echo "$series differs between $1 and $2"; exit 1; }
  done
}

train_on_hosts 2 2 --run.threads=1 --run.dir=two --run.trace=4:6 | tee two.log
"$mpiexec" -n 4 "$tessera" train "${run[@]}" --run.threads=1 --grid.ranks_per_node=2 --run.dir=one

# The bits are those of any grid: that the hosts were taken for the nodes must be looked at.
grep -q '^grid *4 ranks (2 per node), shard group 2, 2 replicas' two.log || { echo "hosts were not taken for nodes"; exit 1; }
hosts=$(h5dump -a /provenance/hosts two/metrics.h5)
grep -q 'tessera-one.*tessera-two' <<<"$hosts" || { echo "not on two hosts: $hosts"; exit 1; }
same_series one two
/usr/bin/python3 - two/trace/steps-4-6.json <<'CHECK'
import json, sys
clocks = json.load(open(sys.argv[1]))["otherData"]["clocks"]
print(*clocks, sep="\n")
assert all((clock["uncertainty_ns"] > 0) == (clock["rank"] >= 2) for clock in clocks), "only the other host's are measured"
assert all(abs(clock["offset_ns"]) <= clock["uncertainty_ns"] for clock in clocks), "both hosts read one clock"
CHECK

train_on_hosts 2 1 --run.dir=unlike
"$mpiexec" -n 3 "$tessera" train "${run[@]}" --run.threads=1 --grid.ranks_per_node=1 --run.dir=alike
same_series alike unlike
echo "the same bits on two hosts and on one"
