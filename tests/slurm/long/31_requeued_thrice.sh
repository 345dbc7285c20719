# One job is started again three times in the middle: by --signal before its time limit, by `scontrol requeue`, and by a
# job of a higher partition (PreemptMode=REQUEUE with a GraceTime). Its losses are those of the undisturbed run, and no
# step is done twice: each time it saved after the step in flight.
longer=(--set train.iterations=30000 --set checkpoint.every=1000)  # longer than Slurm takes to see its limits
reference "${longer[@]}"
job=$(sbatch --parsable --requeue --time=1 --signal=B:USR1@50 job.lua "${longer[@]}")

# Slurm sends the signal at once: the lead is nearly the whole limit.
until_true 90 restarted "$job" 1
first=$(last_step runs/tiny)
scontrol update jobid="$job" timelimit=60
until_true 90 reached runs/tiny $((first + 20))

scontrol requeue "$job"
until_true 90 restarted "$job" 2
until_true 90 reached runs/tiny $(($(last_step runs/tiny) + 20))

urgent=$(sbatch --parsable --partition=urgent --nodes=4 --exclusive --wrap 'sleep 3')
until_true 90 restarted "$job" 3
until_true 60 gone_or_finished "$urgent"
until_true 300 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
printf '= steps done twice: %d\n' "$(repeated_steps runs/tiny)"
check [ "$(repeated_steps runs/tiny)" -le 2 ]
says 'restart 3' "slurm-$job.out"
check [ "$(grep -c '"reason": "signal"\|"reason": "preempted"\|"reason": "time_limit"' runs/tiny/why.json)" -eq 3 ]
says '"reason": "preempted"' runs/tiny/why.json
