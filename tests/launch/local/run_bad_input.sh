#!/usr/bin/env bash
# Every file of bad_input/ is a job that `railyard run --ranks 4` must refuse with exit code 2 and one message, not one for
# each rank, soon, and without a word of MPI's. Lines that begin with "--@ " say what must come of it:
#
#   --@ error: REGEX           the message must match (after "railyard: ")
#   --@ before: COMMAND        run first, in the folder that holds good.lua (a job that works) and corpus.txt
#   --@ options: WORDS         more options of `railyard run` (default: --ranks 4)
#
# run_bad_input.sh PATH_OF_RAILYARD [NAME...]
set -euo pipefail
program=$(readlink -f "$1")
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=lib.sh
. "$here/lib.sh"
prepare
mv job.lua good.lua
longest=30  # seconds

refuse() {  # refuse NAME FILE COMMAND...: one message that matches what FILE says
  local name=$1 file=$2 code=0 begin=$SECONDS
  shift 2
  "$@" >"$name.out" 2>"$name.err" || code=$?
  [ "$code" -eq 2 ] || { echo "$name: exit code $code instead of 2"; cat "$name.out" "$name.err"; return 1; }
  [ $((SECONDS - begin)) -le $longest ] || { echo "$name: took $((SECONDS - begin)) s"; return 1; }
  [ "$(grep -c '^railyard: ' "$name.err")" -eq 1 ] || { echo "$name: not one message:"; cat "$name.err"; return 1; }
  grep -Eq "^railyard: .*$(sed -n 's/^--@ error: //p' "$file")" "$name.err" ||
    { echo "$name: another message than expected:"; cat "$name.err"; return 1; }
}

failed=0 passed=0
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(cd "$here/bad_input" && printf '%s\n' *.lua)
for name in "${names[@]}"; do
  name=${name%.lua}
  file=$here/bad_input/$name.lua
  cp "$file" .
  before=$(sed -n 's/^--@ before: //p' "$file")
  read -r -a options < <(sed -n 's/^--@ options: //p' "$file"; echo "--ranks 4")
  if [ -n "$before" ] && ! (eval "$before") >"$name.before" 2>&1; then
    echo "$name: cannot be prepared"; cat "$name.before"; failed=$((failed + 1)); continue
  fi
  if refuse "$name" "$file" railyard run "$name.lua" "${options[@]}" --run-dir "$name" &&
    { ! grep -Ev "^(railyard: |$name\.lua:)" "$name.err" >"$name.more" || { echo "$name: more than a message:"; cat "$name.err"; false; }; }; then
    passed=$((passed + 1))
    sed -n 's/^railyard: /ok: /p' "$name.err"
  else failed=$((failed + 1)); fi
done

# Ranks that mpirun has started say it once, too.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if refuse ranks "$here/bad_input/misspelt_key.lua" \
  mpirun --oversubscribe -n 4 railyard run "$here/bad_input/misspelt_key.lua" --run-dir ranks; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
