#!/bin/sh
# Starts bin/NAME of the bundle that this file lies in, wherever that is.
bundle=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
. "$bundle/env.sh"
exec "$bundle/bin/$(basename -- "$0")" "$@"
