#!/bin/sh
# What an image holds besides Debian 12: a bundle (jobs/setup.sh bundle) in /opt/tessera, Python with Jinja2 for chats, and,
# unless told `cpu`, NVIDIA's NCCL, cuBLASLt and cuDNN from PyPI in /opt/nvidia. The driver's libraries are the host's.
# Containerfile and tessera.def run it as root in the image that they build.
#
#   contents.sh BUNDLE.tar.xz gpu|cpu
set -eu
mkdir -p /opt/tessera
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends xz-utils python3 python3-jinja2 python3-pip >/dev/null
tar -C /opt/tessera --strip-components=1 -xf "$1"
for program in tessera mpiexec mpirun; do ln -s "/opt/tessera/bin/$program" /usr/local/bin/; done
if [ "$2" = gpu ]; then
  pip install --quiet --root-user-action=ignore --no-cache-dir --target /opt/nvidia nvidia-nccl-cu13 nvidia-cublas nvidia-cudnn-cu13
fi
apt-get -qq -y purge --autoremove python3-pip >/dev/null
rm -rf /var/lib/apt/lists/* "$1"
tessera version
