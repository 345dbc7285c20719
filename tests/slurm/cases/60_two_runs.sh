# Two runs on one directory: the second is refused, with the owner.
job=$(sbatch --parsable job.lua --set train.iterations=200)
until_true 90 reached runs/tiny 1
exits 2 railyard run job.lua --ranks 2 --run-dir runs/tiny >second.txt 2>&1
says "in use by .*Slurm job $job" second.txt
scancel "$job"
