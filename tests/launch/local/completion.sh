#!/usr/bin/env bash
# Completion of commands, options and files by packaging/railyard.bash. completion.sh PATH_OF_RAILYARD
set -euo pipefail
program=$(readlink -f "$1")
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
touch first.lua 'a job.lua'
PATH=$(dirname "$program"):$PATH

completed() {  # completed WORD...: what is offered for the last word, one a line
  # shellcheck disable=SC2016
  bash -euo pipefail -c '
    . "$0"
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    function=$(complete -p railyard | sed "s/.*-F \([^ ]*\).*/\1/")
    "$function" railyard "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' "$source_dir/packaging/railyard.bash" "$@"
}
offers() {  # offers WANTED WORD...: WANTED is what comes, in any order
  local wanted=$1 got
  shift
  got=$(completed "$@" | sort | paste -sd ' ')
  [ "$got" = "$wanted" ] || { printf 'for "%s" came "%s" instead of "%s"\n' "$*" "$got" "$wanted"; exit 1; }
}

bash -c '. "$0"; complete -p railyard' "$source_dir/packaging/railyard.bash" | grep -c -- '-F _railyard railyard' >/dev/null
offers 'sample site status submit' railyard s
offers 'report run' railyard r
offers 'export' railyard ckpt ex
offers 'tokenize' railyard data tok
offers '--set' railyard run --se
offers '--stacks' railyard status --st
offers '--run-dir' railyard run first.lua --run
offers 'first.lua' railyard run f
offers 'a job.lua' railyard submit a
[ "$(completed railyard '' | grep -cx topo)" -eq 1 ]
[ "$(completed railyard '' | grep -c check-node)" -eq 0 ]
echo "completion: passed"
