# A job that is killed without a word (its GraceTime is over, its node reboots): at most a checkpoint interval is lost.
reference "${long[@]}"
job=$(sbatch --parsable --requeue job.lua "${long[@]}")
until_true 90 reached runs/tiny 60
# The launcher and the ranks get SIGKILL; Slurm takes the batch script's end for a failure, so we queue it again.
kill_all_of railyard
until_true 60 finished "$job"
before=$(last_step runs/tiny)
scontrol requeue "$job"
until_true 300 finished_with "$job" COMPLETED
check same_losses reference runs/tiny
printf '= steps done twice: %d (of %d, a checkpoint every 50)\n' "$(repeated_steps runs/tiny)" "$before"
check [ "$(repeated_steps runs/tiny)" -le 50 ]
