# sbatch takes the Lua file as it is; the losses are those of local ranks.
reference
job=$(sbatch --parsable job.lua)
until_true 120 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says 'Slurm job .* 4 ranks on 2 nodes' "slurm-$job.out"
check [ "$(grep -c '"node": "node' runs/tiny/placement-1.json)" -eq 4 ]
