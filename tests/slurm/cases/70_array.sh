# Array tasks have run directories of their own.
job=$(sbatch --parsable --array=0-1 --nodes=1 --ntasks-per-node=2 job.lua)
until_true 150 gone "$job"
check [ "$(why runs/tiny-0)" = finished ]
check [ "$(why runs/tiny-1)" = finished ]
