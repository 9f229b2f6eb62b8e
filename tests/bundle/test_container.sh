#!/usr/bin/env bash
# Builds the image of jobs/container/Containerfile by Buildah, over a Debian that mmdebstrap makes instead of the registry's,
# without NVIDIA's libraries, and trains in it over two ranks. Apptainer is no package of Debian 12: of its definition this
# looks only at the names of its sections and files, and whether it runs the same script.
#
#   test_container.sh ARCHIVE.tar.xz     exits 77 where this user may not build images
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
archive=$(realpath "$1")

definition=$source/jobs/container/tessera.def
sections=$(grep -o '^%[a-z]*' "$definition" | sort | paste -sd' ')
[[ $sections == "%environment %files %post %runscript %test" ]] || { echo "sections of tessera.def: $sections"; exit 1; }
for file in $(sed -n '/^%files/,/^$/s/^ *\([^ ]*\) .*/\1/p' "$definition"); do
  # The bundle's name may be any version's.
  [[ $file == build/bundle/tessera-\*.tar.xz || -e $source/$file ]] || { echo "tessera.def copies $file, which is not there"; exit 1; }
done
grep -q 'sh /tmp/contents.sh /tmp/tessera.tar.xz gpu' "$definition" || { echo "tessera.def does not run contents.sh"; exit 1; }

[[ $(id -u) -eq 0 ]] && command -v buildah mmdebstrap >/dev/null || {
  echo "needs root, and jobs/setup.sh --packages buildah mmdebstrap"
  exit 77
}
work=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
images=(buildah --root "$work/images" --runroot "$work/run")
trap '"${images[@]}" rm --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | sed -n 1p)
mmdebstrap --quiet --variant=minbase bookworm "$work/debian.tar" "$mirror"
base=$("${images[@]}" from scratch)
"${images[@]}" add --quiet "$base" "$work/debian.tar" / >/dev/null
"${images[@]}" commit --quiet "$base" localhost/debian >/dev/null

mkdir -p "$work/context/build/bundle" "$work/context/jobs"
cp "$archive" "$work/context/build/bundle/"
cp -r "$source/jobs/container" "$work/context/jobs/"
cp "$source/.dockerignore" "$work/context/"
"${images[@]}" build --pull-never --build-arg BASE=localhost/debian --build-arg FOR=cpu \
  -f "$source/jobs/container/Containerfile" -t localhost/tessera "$work/context"
box=$("${images[@]}" from --pull-never localhost/tessera)
"${images[@]}" run "$box" -- mpiexec -n 2 tessera train --run.dir=/tmp/run --run.device=cpu --train.steps=5 --train.seq_len=32 --model.layers=1 \
  --data.source=synthetic --train.eval_every=0 | tee "$work/said"
grep -q '^done  *5 steps' "$work/said"
"${images[@]}" run "$box" -- python3 -c 'import jinja2'
echo "container: built by Buildah, and trained in over 2 ranks; of tessera.def only sections and files were looked at"
