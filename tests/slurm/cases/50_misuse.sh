# Everything that can be known before step 0 ends with exit code 2 and one message.
exits 2 salloc -N1 -n3 railyard run job.lua >few.txt 2>&1
says 'tp' few.txt
exits 2 salloc -N2 -n2 railyard run job.lua --ranks 3 >uneven.txt 2>&1
says '3 ranks do not divide over the 2 nodes' uneven.txt
exits 2 salloc -N2 --ntasks-per-node=1 railyard run job.lua --ranks 8 >cpus.txt 2>&1
says '1 CPU on node' cpus.txt
touch file
exits 2 salloc -N1 -n2 railyard run job.lua --run-dir file/run >unwritable.txt 2>&1
says 'file/run' unwritable.txt
exits 2 srun -N2 --ntasks-per-node=2 --mpi=pmix railyard run job.lua --set train.iteration=3 >typo.txt 2>&1
check [ "$(grep -c 'train.iteration' typo.txt)" -eq 1 ]
