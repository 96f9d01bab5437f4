#!/bin/sh
# Takes the XDP program of the responder off its interfaces, at once, whether or not the daemon lives.
# Removing the pin of a link detaches its program. Usage: detach.sh [PIN_PATH]
set -eu
pins=${1:-/sys/fs/bpf/responder}
found=0
for link in "$pins"/v*/link-*; do
    [ -e "$link" ] || continue
    rm -- "$link"
    echo "detached ${link##*/link-}"
    found=1
done
[ "$found" = 1 ] || { echo "no link below $pins" >&2; exit 1; }
