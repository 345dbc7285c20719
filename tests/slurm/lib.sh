# What the cases share. A case runs in a folder of its own that holds job.lua and corpus.txt.
# shellcheck shell=bash

check() {  # check COMMAND...: the case fails where it does not hold
  "$@" || { printf 'does not hold: %s\n' "$*"; exit 1; }
}
exits() {  # exits CODE COMMAND...
  local wanted=$1 code=0
  shift
  "$@" || code=$?
  [ "$code" -eq "$wanted" ] || { printf 'exit code %d instead of %d: %s\n' "$code" "$wanted" "$*"; exit 1; }
}
says() {  # says PATTERN FILE
  grep -Eq -- "$1" "$2" || { printf 'no line matches "%s" in %s:\n' "$1" "$2"; cat "$2"; exit 1; }
}
until_true() {  # until_true SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || { printf 'not within its time: %s\n' "$*"; exit 1; }
    sleep 0.2
  done
}
gone() { [ -z "$(squeue --noheader --job "$1" 2>/dev/null)" ]; }
finished() { scontrol show job "$1" | grep -Eq 'JobState=(COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL)'; }
reached() { grep -q "\"step\":$2," "$1/metrics.jsonl"; }  # reached RUN STEP

# The losses of a run by step, each step's last row: what two runs are compared by.
losses() { sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl" | awk '{ last[$1] = $2 } END { for (s in last) print s, last[s] }' | sort -n; }
same_losses() { diff <(losses "$1") <(losses "$2"); }
why() { sed -n 's/^ "reason": "\(.*\)",$/\1/p' "$1/why.json" | head -n 1; }
# Settings of a run that lasts long enough to be disturbed, also on a fast machine.
long=(--set train.iterations=600 --set checkpoint.every=50)
longer=(--set train.iterations=3000 --set checkpoint.every=100)
# The undisturbed run on local ranks, for comparison: reference [OPTION...].
reference() { railyard run job.lua --ranks 4 --run-dir reference "$@" >reference.txt 2>&1; }
# kill_rank SIGNAL RANK: of the one step that runs. Process ids of the sandbox are its own.
kill_rank() {
  nsenter --target "$(cat "$RAILYARD_SANDBOX/keeper")" --pid --mount bash -c '
    for pid in $(pgrep -x railyard); do
      if tr "\0" "\n" <"/proc/$pid/environ" | grep -qx "PMIX_RANK=$1"; then kill "-$0" "$pid" && exit 0; fi
    done; exit 1' "$1" "$2"
}
restarted() { scontrol show job "$1" | grep -Eq "Restarts=$2( |$)"; }  # restarted JOB TIMES
finished_with() { scontrol show job "$1" | grep -Eq "JobState=$2( |$)"; }  # finished_with JOB STATE
gone_or_finished() { gone "$1" || finished "$1"; }
last_step() { tail -n 1 "$1/metrics.jsonl" | sed -n 's/^{"step":\([0-9]*\),.*/\1/p'; }
# Rows of training steps that a later row of the same step replaces.
repeated_steps() { sed -n 's/^{"step":\([0-9]*\),"loss":.*/\1/p' "$1/metrics.jsonl" | sort | uniq -d | wc -l; }
batch_host() { scontrol show job "$1" | sed -n 's/.*BatchHost=\(node[0-9]*\).*/\1/p'; }
up() { sinfo --noheader --nodes="$1" --format=%T | grep -qx idle; }
now_ms() { date +%s%3N; }
# kill_all_of NAME: kill -9 of every process of the sandbox with that name.
kill_all_of() {
  # shellcheck disable=SC2016
  nsenter --target "$(cat "$RAILYARD_SANDBOX/keeper")" --pid --mount bash -c 'pkill -KILL -x "$0" || true' "$1"
}
# pid_of RUN RANK: the process of a logical rank, as the sandbox counts processes.
pid_of() { railyard status --stacks --json "$1" | sed -n "s/.*\"pid\":\([0-9]*\),.*\"rank\":$2,.*/\1/p;s/.*\"rank\":$2,.*\"pid\":\([0-9]*\),.*/\1/p" | head -n 1; }
# signal_pid SIGNAL PID: to a process of the sandbox.
signal_pid() { nsenter --target "$(cat "$RAILYARD_SANDBOX/keeper")" --pid --mount kill "-$1" "$2"; }
