#!/usr/bin/env bash
# Makes a corpus of Debian's own documentation and sources: the manuals of Perl and Vim, Git's release notes, Python's
# library, and C headers. 34 MB of English and code in FOLDER/debian.txt (by default runs/text/debian), from 23 MB of
# packages that apt-get downloads and nothing installs.
#
#   jobs/debian_text.sh [FOLDER]
set -euo pipefail
folder=$(realpath -m -- "${1:-"$(dirname "${BASH_SOURCE[0]}")/../runs/text/debian"}")

# A package, and the names of its files that are text.
packages=("perl-doc *.pod" "vim-runtime *.txt" "git-doc *.txt" "libpython3.11-stdlib *.py" "libc6-dev *.h" "linux-libc-dev *.h")

if [[ -s $folder/debian.txt ]]; then
  echo "text: $folder/debian.txt is there already"
  exit 0
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
  { echo "debian_text: needs apt-get and dpkg-deb, as Debian has them" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for line in "${packages[@]}"; do
  read -r package pattern <<<"$line"
  apt-get download -q "$package" >/dev/null 2>said ||
    { echo "debian_text: apt-get cannot download $package: $(tail -1 said)" >&2; exit 1; }
  dpkg-deb -x "$package"_*.deb "$package"
  find "$package" -type f -name "$pattern" -print0 >found
  [[ -s found ]] || { echo "debian_text: $package has no files named $pattern" >&2; exit 1; }
  cat found >>names
done
# In an order that mixes them, so that the end of the text, which is held out, has all kinds, and that is the same anywhere.
LC_ALL=C sort -z names | LC_ALL=C sort -z -R --random-source=<(yes) | xargs -0 cat | iconv -c -f utf-8 -t utf-8 >text
mkdir -p "$folder"
mv text "$folder/debian.txt"
echo "text: $(du -h --apparent-size "$folder/debian.txt" | cut -f1) in $folder/debian.txt"
