#!/usr/bin/env bash
# Nothing is lost: any rank is killed (SIGKILL) at random moments, at every third time while a checkpoint is being
# written; each next `railyard run` goes on, and every run that gets to its end has the losses of an undisturbed one, bit
# for bit. run_killed.sh PATH_OF_RAILYARD KILLS [SEED]
set -euo pipefail
program=$(readlink -f "$1")
kills=$2
RANDOM=${3:-$$}
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare
echo "seed ${3:-$$}"
ranks=4
# No restarts of its own: after each kill it is the next `railyard run` that goes on.
options=(--ranks $ranks --set train.iterations=240 --set checkpoint.every=20 --set train.optimizer.distributed=true
  --set run.max_restarts=0)

being_saved() { compgen -G "$1/ckpt/step-*.tmp-*" >/dev/null; }
steps_of() { if [ -e "$1/metrics.jsonl" ]; then losses "$1" | wc -l; else echo 0; fi; }

railyard run job.lua "${options[@]}" --run-dir reference >reference.txt 2>&1
check [ "$(losses reference | wc -l)" -eq 240 ]

killed=0 in_save=0 before_step=0 complete=0 number=1 resumed=0
while [ "$killed" -lt "$kills" ] || [ "$complete" -eq 0 ]; do
  run=run-$number
  had=$(steps_of "$run")
  railyard run job.lua "${options[@]}" --run-dir "$run" >"$run.txt" 2>&1 &
  launcher=$!
  victim=
  if [ "$killed" -lt "$kills" ]; then
    rank=$((RANDOM % ranks))
    if [ $((killed % 3)) -eq 2 ]; then
      # With an older checkpoint to go on from.
      while kill -0 "$launcher" 2>/dev/null && ! { [ -e "$run/ckpt/latest" ] && being_saved "$run"; }; do :; done
    else
      sleep "$((RANDOM % 3)).$((RANDOM % 10))$((RANDOM % 10))"
    fi
    if victim=$(rank_of "$run" "$rank") && kill -KILL "$victim" 2>/dev/null; then :; else victim=; fi
  fi
  code=0
  wait "$launcher" || code=$?
  if grep -q 'resumed from' "$run.txt"; then resumed=$((resumed + 1)); fi
  # A rank that had done its work already may be killed without harm.
  if [ "$code" -eq 0 ]; then
    check same_losses reference "$run"
    complete=$((complete + 1)) number=$((number + 1))
    rm -rf "$run"
    continue
  fi
  [ "$code" -eq 1 ] && [ -n "$victim" ] || { printf 'exit code %d, killed: "%s"\n' "$code" "$victim"; cat "$run.txt"; exit 1; }
  says "rank $rank on .* was killed by signal 9" "$run.txt"
  check [ "$(grep -c '^railyard: ' "$run.txt")" -eq 1 ]
  killed=$((killed + 1))
  if being_saved "$run"; then in_save=$((in_save + 1)); fi
  if [ "$(steps_of "$run")" -eq "$had" ]; then before_step=$((before_step + 1)); fi
done
# Both kinds of moments must have been met, else this has shown less than it says.
check [ "$in_save" -ge $((kills / 10)) ]
check [ "$resumed" -ge 1 ]
printf '%d kills: %d left a half-written checkpoint, %d came before a new step; %d starts resumed; %d runs came to their end with the losses of the undisturbed run\n' \
  "$killed" "$in_save" "$before_step" "$resumed" "$complete"
