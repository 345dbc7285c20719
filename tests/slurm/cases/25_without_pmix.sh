# A step whose srun was told of no PMIx: the ranks meet by TCP, and rank 0 starts a step of its own.
reference
salloc -N2 --ntasks-per-node=2 srun --mpi=none railyard run job.lua --run-dir by-tcp
check same_losses reference by-tcp
