# SIGUSR1 to the batch script saves, ends with 75 and requeues; the run goes on from there, bit for bit.
reference "${long[@]}"
job=$(sbatch --parsable --requeue job.lua "${long[@]}")
until_true 90 reached runs/tiny 2
scancel --batch --signal=USR1 "$job"
until_true 300 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says '"reason": "signal"' runs/tiny/why.json
says 'restart 1' "slurm-$job.out"
