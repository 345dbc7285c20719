# kill -9 of a rank: the launcher starts again from the last checkpoint, within the same job.
reference
job=$(sbatch --parsable job.lua)
until_true 90 reached runs/tiny 6
pid=$("$here/sandbox" on node2 scontrol listpids | awk 'NR > 1 && $5 == 1 { print $1; exit }')
nsenter --target "$(cat "$RAILYARD_SANDBOX/keeper")" --pid --mount kill -9 "$pid"
until_true 120 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says 'restarting from the last checkpoint \(1 of 3\)' "slurm-$job.out"
says '"reason": "rank_killed"' runs/tiny/why.json
