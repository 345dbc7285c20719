# A stopped rank: the others give up after run.timeout, the step ends, and the launcher starts again.
reference "${long[@]}"
job=$(sbatch --parsable job.lua "${long[@]}" --set run.timeout=5)
until_true 90 reached runs/tiny 6
check kill_rank STOP 2
until_true 300 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says '"reason": "hung_collective"' runs/tiny/why.json
says 'has waited' "slurm-$job.out"
