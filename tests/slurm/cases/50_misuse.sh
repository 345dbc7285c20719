# Everything that can be known before step 0 ends with exit code 2 and one message.
exits 2 salloc -N1 -n3 railyard run job.lua >few.txt 2>&1
says 'tp' few.txt
exits 2 salloc -N1 -n2 railyard run job.lua --set parallel.dp=2 >nodes.txt 2>&1
says 'dp' nodes.txt
exits 2 salloc -N2 -n2 railyard run job.lua --ranks 3 >uneven.txt 2>&1
says '3 ranks do not divide over the 2 nodes' uneven.txt
exits 2 salloc -N2 --ntasks-per-node=1 railyard run job.lua --ranks 8 >cpus.txt 2>&1
says '1 CPU on node' cpus.txt
touch file
exits 2 salloc -N1 -n2 railyard run job.lua --run-dir file/run >unwritable.txt 2>&1
says 'file/run' unwritable.txt
exits 2 railyard submit job.lua --run-dir file/run >unwritable.txt 2>&1
says 'file/run' unwritable.txt
exits 2 srun -N2 --ntasks-per-node=2 --mpi=pmix railyard run job.lua --set train.iteration=3 >typo.txt 2>&1
check [ "$(grep -c 'train.iteration' typo.txt)" -eq 1 ]
# Before the first step the time of one is estimated from its operations and what the nodes' cores reach.
forever=(--set train.iterations=1000000000 --set checkpoint.every=1000000000)
exits 2 salloc -N2 --ntasks-per-node=2 --time=2 railyard run job.lua "${forever[@]}" >limit.txt 2>&1
says 'checkpoint.every: 1000000000 steps of at least' limit.txt
check [ ! -e runs/tiny/metrics.jsonl ]
# Afterwards it is known.
salloc -N2 --ntasks-per-node=2 railyard run job.lua >known.txt 2>&1
exits 2 railyard submit job.lua --sbatch=--time=2 "${forever[@]}" >limit.txt 2>&1
says 'checkpoint.every: 1000000000 steps of 0' limit.txt
printf 'return site { name = "h100s", node = { gpus = 8, gpu = "H100-SXM5-80GB" } }\n' >site.lua
RAILYARD_SITE=$PWD/site.lua exits 2 railyard submit job.lua --sbatch=--gres=gpu:b300:4 >kind.txt 2>&1
says 'no GPU of the kind "b300"; node.gpu in its site file says H100-SXM5-80GB' kind.txt
RAILYARD_SITE=$PWD/site.lua railyard submit --dry-run job.lua --sbatch=--gres=gpu:h100:4 --run-dir h100 >dry.txt
says '^#SBATCH --gres=gpu:h100:4' dry.txt
check [ -z "$(squeue --noheader)" ]
# What a plan for the site's nodes warns of is said before the queue.
RAILYARD_SITE=$PWD/site.lua railyard submit --dry-run job.lua --set run.device=cuda --set model.hidden=65536 --set model.ffn=262144 --set model.layers=48 >dry.txt 2>plan.txt
says '^railyard: plan: ' plan.txt
