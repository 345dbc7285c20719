# A rank that is stopped again and again is named; `status --stacks` shows what each rank is in, a stopped one too.
job=$(sbatch --parsable job.lua --set train.iterations=1000000 --set checkpoint.every=0 --set run.timeout=60)
until_true 90 reached runs/tiny 30
railyard status --stacks "$job" >stacks.txt
check [ "$(grep -c '^rank [0-3] on node[1-4]: step ' stacks.txt)" -eq 4 ]
slow=$(pid_of runs/tiny 3) stopped=$(pid_of runs/tiny 1)
slow_down() { for i in $(seq 1 400); do signal_pid STOP "$slow"; sleep 0.2; signal_pid CONT "$slow"; sleep 0.02; done; }
printf "processes of ranks 3 and 1: %s %s\n" "$slow" "$stopped"
check [ -n "$slow" ]
slow_down &
begin=$(now_ms)
until_true 60 grep -q 'rank 3 node[1-4] is slow' "slurm-$job.out"
printf '= a slow rank: named after %d ms\n' $(($(now_ms) - begin))
kill $!
wait $! || true
signal_pid CONT "$slow"
check [ "$(grep -c 'is slow' "slurm-$job.out")" -eq 1 ]
signal_pid STOP "$stopped"
sleep 1
railyard status --stacks runs/tiny >stopped.txt
signal_pid CONT "$stopped"
says '^rank 1 on node[1-4]: step .*\(stopped\)' stopped.txt
says '^rank [023] on node[1-4]: step .*, waits in .* for [0-9.]+ s' stopped.txt
scancel --batch --signal=TERM "$job"
until_true 60 finished "$job"
check [ "$(why runs/tiny)" = signal ]
