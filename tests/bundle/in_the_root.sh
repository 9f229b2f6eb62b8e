#!/bin/sh
# What test_bundle.sh tries in its root: in_the_root BUNDLE. busybox's sh runs it.
set -eu
bundle=$1
cd /tmp

fail() {
  echo "failed: $*" >&2
  exit 1
}

# says CODE PATTERN COMMAND...: the command ends with the code, and says the pattern.
says() {
  code=$1 pattern=$2
  shift 2
  ended=0
  "$@" >said 2>&1 </dev/null || ended=$?
  cat said
  [ "$ended" -eq "$code" ] || fail "$* ended with $ended"
  grep -Eq "$pattern" said || fail "$* does not say $pattern"
}

train() {
  says "$1" "$2" "$bundle/mpiexec" -n 2 "$bundle/tessera" train --run.dir=run --train.eval_every=0 --run.threads=1 \
    --model.layers=2 --model.width=32 --train.seq_len=32 --train.steps=20 --checkpoint.resume=auto --run.device=cpu "$3"
}

if "$bundle/programs/tessera" version 2>/dev/null; then fail "this root has a loader"; fi
says 0 'git_revision' "$bundle/tessera" version
# This machine has another PMIx at the place where Debian's was built; the bundle's must not try its plugins.
foreign=/usr/lib/$(uname -m)-linux-gnu/pmix2/lib/pmix
mkdir -p "$foreign" && echo "not a library" >"$foreign/pmix_mca_pcompress_zlib.so"
train 75 'stopped +after step 1 ' --run.walltime=1ms
if grep -i pmix said; then fail "PMIx speaks of what it has found"; fi
rm -r "$foreign"
train 0 'done +19 steps' --metrics.every=1
grep -q '"finished"' run/status.json
says 0 'all kernels' "$bundle/tessera" bench kernels --bench.steps=1 --bench.warmup=0 --train.seq_len=8  # without mpiexec

# Through a link of another name, and from bin/: the program is found by where the link leads.
ln -s "$bundle/tessera" trainer
says 0 'git_revision' ./trainer version
says 0 'git_revision' "$bundle/bin/tessera" version

# A sweep starts the same program, over the bundle's mpiexec.
cat >two.ini <<'END'
[sweep.vary]
ranks = 1, 2
[run]
device = cpu
threads = 1
[train]
steps = 2
seq_len = 32
END
says 0 '2 +.*done' "$bundle/tessera" sweep two.ini --sweep.action=run
grep -q '"finished"' runs/two/2/run/status.json

# Ranks on another host, under a daemon that ssh starts. Another host name and an empty environment play it.
cat >remote <<'END'
#!/bin/sh
shift
exec unshare -u env -i HOME=/ PATH=/bin sh -c "hostname elsewhere; $*"
END
chmod +x remote
says 0 'grid +2 ranks \(1 per node\)' "$bundle/mpirun" --mca plm rsh --mca plm_rsh_agent /tmp/remote --mca oob_tcp_if_include lo \
  --mca btl_tcp_if_include lo --host nowhere-to-be-found:1,elsewhere:1 "$bundle/tessera" train --run.dir=hosts --run.threads=1 \
  --model.layers=2 --model.width=32 --train.seq_len=32 --train.steps=2 --train.eval_every=0 --run.device=cpu

if "$bundle/tessera" version | grep -q "has no CUDA"; then
  echo "bundle: without CUDA, so no driver is looked for"
  exit
fi

# GPUs: without a driver, with one in the system's folders, and with one that the user names. The program finds the
# driver's libraries, those find each other, and neither finds anything else in these folders.
says 2 "run.device = cuda does not work, because libcuda.so.1 of the NVIDIA driver is not found" "$bundle/tessera" train --run.device=cuda
[ ! -e /tmp/tessera-libraries-0 ] || fail "links without a driver"
mkdir -p /usr && mv /stand-ins/usr/lib64 /usr/lib64
says 2 '/usr/lib64: libnvidia-ml.so.1 found' "$bundle/tessera" train --run.device=cuda
grep -q 'run.device = cuda does not work, because no CUDA-capable device is detected' said
mv /stand-ins/opt/driver /opt/driver
says 2 '/opt/driver: libnvidia-ml.so.1 found' env TESSERA_DRIVER_LIBS=/nothing:/opt/driver "$bundle/mpiexec" -n 2 "$bundle/tessera" train --run.device=cuda
[ "$(ls /tmp/tessera-libraries-0/opt/driver)" = "$(printf 'libcuda.so.1\nlibnvidia-ml.so.1')" ] || fail "other links"
says 2 '/opt/driver: libnvidia-ml.so.1 found' env LD_LIBRARY_PATH=/opt/driver "$bundle/tessera" train --run.device=cuda  # a module's
says 0 '^LD_LIBRARY_PATH=$' sh -c ". $bundle/env.sh; . $bundle/host.sh; echo LD_LIBRARY_PATH=\${LD_LIBRARY_PATH:-}"
# Somebody else's folder of that name.
rm -r /tmp/tessera-libraries-0 && mkdir /tmp/tessera-libraries-0 && chown 1 /tmp/tessera-libraries-0
says 0 'Set TMPDIR to a folder of yours' "$bundle/tessera" version
[ -z "$(ls /tmp/tessera-libraries-0)" ] || fail "links in a folder of somebody else"
rm -r /tmp/tessera-libraries-0 /usr/lib64
# Known to ldconfig alone.
case $(uname -m) in aarch64) kind=AArch64 ;; *) kind=x86-64 ;; esac
cat >/bin/ldconfig <<END
#!/bin/sh
echo "	libcuda.so.1 (libc6) => /opt/of-32-bits/libcuda.so.1"
echo "	libcuda.so.1 (libc6,$kind) => /opt/driver/libcuda.so.1"
END
chmod +x /bin/ldconfig
says 2 '/opt/driver: libnvidia-ml.so.1 found' "$bundle/tessera" train --run.device=cuda
rm -r /opt/driver /bin/ldconfig

for test in "$bundle"/test_gpu_*; do # of a bundle of tests: they start; without a GPU they skip
  [ -e "$test" ] || continue
  code=0
  "$test" >said 2>&1 || code=$?
  echo "${test##*/}: $(cat said)"
  [ "$code" -eq 77 ] || [ "$code" -eq 0 ] || fail "$test ended with $code"
done

if [ -e "$bundle/ctest" ]; then # none of CMake's files are here
  mkdir stages
  cat >stages/CTestTestfile.cmake <<'END'
find_program(shell sh)
execute_process(COMMAND ${shell} -c "echo starts" OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE)
add_test("a shell ${said}" ${shell} -c "exit 77")
set_tests_properties("a shell ${said}" PROPERTIES SKIP_RETURN_CODE 77)
END
  says 0 'a shell starts.*Skipped' "$bundle/ctest" --test-dir stages
fi
