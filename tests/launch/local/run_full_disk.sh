#!/usr/bin/env bash
# A disk that fills ends the run with exit code 1 and one message, the last checkpoint whole; when there is room again, the
# next run goes on and ends as an undisturbed one. run_full_disk.sh PATH_OF_RAILYARD; needs root, to mount a small disk.
set -euo pipefail
program=$(readlink -f "$1")
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare
mkdir disk
if [ "$(id -u)" -ne 0 ] || ! mount -t tmpfs -o size=3m tmpfs disk 2>mount.txt; then
  echo "SKIPPED: a full disk was not tried: mounting a small one needs root and the right to mount" >&2
  exit 77
fi
trap 'umount -l "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
# Checkpoints of about 0.5 MB that are all kept.
options=(--ranks 4 --set train.iterations=60 --set checkpoint.every=5 --set checkpoint.keep=0 --set model.hidden=64)
railyard run job.lua "${options[@]}" --run-dir reference >reference.txt 2>&1

exits 1 railyard run job.lua "${options[@]}" --run-dir disk/run >full.txt 2>errors.txt
says 'No space left on device' errors.txt
check [ "$(grep -c '^railyard: ' errors.txt)" -eq 1 ]
check [ "$(grep -c . errors.txt)" -eq 1 ]
last=$(find disk/run/ckpt -maxdepth 1 -name 'step-*' ! -name '*.tmp-*' -printf '%f\n' | sort -t - -k 2 -n | tail -n 1)
check [ -n "$last" ]
railyard ckpt verify "disk/run/ckpt/$last" >verify.txt

# Still full: the same end, and nothing lost.
exits 1 railyard run job.lua "${options[@]}" --run-dir disk/run >again.txt 2>errors.txt
check [ "$(grep -c '^railyard: ' errors.txt)" -eq 1 ]
railyard ckpt verify "disk/run/ckpt/$last" >verify.txt

mount -o remount,size=64m disk
railyard run job.lua "${options[@]}" --run-dir disk/run >resumed.txt 2>&1
says "resumed from .*$last" resumed.txt
check same_losses reference disk/run
echo "the disk was full after $last; the run went on when there was room and ended as the undisturbed one"
