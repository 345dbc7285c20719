# srun with PMIx, salloc, an interactive step on a terminal, submit, mpirun and --export=NONE: the same losses.
reference
srun -N2 --ntasks-per-node=2 --mpi=pmix railyard run job.lua --run-dir by-srun
check same_losses reference by-srun
salloc -N2 --ntasks-per-node=2 railyard run job.lua --run-dir by-salloc
check same_losses reference by-salloc
salloc -N2 -n2 -c4 script -qec 'srun --pty -N1 -n1 -c4 railyard run job.lua --ranks 4 --run-dir by-pty' by-pty.txt
check same_losses reference by-pty
job=$(sbatch --parsable --export=NONE --wrap "export PATH=$PATH; railyard run job.lua --run-dir by-none" -N2 --ntasks-per-node=2)
until_true 120 finished "$job"
check same_losses reference by-none
job=$(railyard submit job.lua --run-dir by-submit)
until_true 120 finished "$job"
check same_losses reference by-submit
check [ -s "by-submit/log/slurm-$job.out" ]
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 4 railyard run job.lua --run-dir by-mpirun
check same_losses reference by-mpirun
