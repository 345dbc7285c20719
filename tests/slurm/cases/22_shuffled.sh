# Ranks that are dealt to nodes in turn: tensor parallel pairs still meet on one node, and the losses are the same.
reference
node_of() { sed -n 's/^   "node": "\(.*\)",$/\1/p' "$1/placement-1.json" | sed -n "$(($2 + 1))p"; }  # node_of RUN RANK
started_as() { sed -n 's/^   "started_as": \([0-9]*\)$/\1/p' "$1/placement-1.json" | tr '\n' ' '; }
pairs_meet() { [ "$(node_of "$1" 0)" = "$(node_of "$1" 1)" ] && [ "$(node_of "$1" 2)" = "$(node_of "$1" 3)" ] && [ "$(node_of "$1" 0)" != "$(node_of "$1" 2)" ]; }

srun -N2 --ntasks-per-node=2 --distribution=cyclic --mpi=pmix railyard run job.lua --run-dir cyclic 2>cyclic.txt
check pairs_meet cyclic
check [ "$(started_as cyclic)" = "0 2 1 3 " ]
check same_losses reference cyclic
says 'placement: 4 ranks on 2 nodes; tp: 100% pcie, .*in the order of Slurm block' cyclic.txt
check [ "$(grep -c placement: cyclic.txt)" -eq 1 ]

# Four nodes on two leaves, told by scontrol show topology.
srun -N4 --ntasks-per-node=1 --mpi=pmix railyard run job.lua --set parallel.tp=1 --run-dir leaves 2>leaves.txt
says 'placement: 4 ranks on 4 nodes; dp: .*over 2 leaves' leaves.txt

# A site file and its hooks, through every way of starting.
cat >site.lua <<'END'
return site {
  name = "sandbox",
  setenv = { OF_SITE = "yes" },
  on_map = function(placement)
    local a, b = placement.map[1], placement.map[3]
    a.node, b.node = b.node, a.node
    return placement
  end,
  on_env = function(rank) return { WHERE = rank.node .. "." .. rank.local_rank .. "." .. rank.tp } end,
}
END
salloc -N2 --ntasks-per-node=2 railyard run job.lua --site site.lua --run-dir hooked 2>hooked.txt
check [ "$(started_as hooked)" = "2 0 1 3 " ]
check same_losses reference hooked
srun -N2 --ntasks-per-node=2 --mpi=pmix railyard run job.lua --site site.lua --run-dir hooked-too 2>hooked.txt
check [ "$(started_as hooked-too)" = "2 0 1 3 " ]
exits 2 srun -N2 --ntasks-per-node=2 --mpi=pmix railyard run job.lua --site missing.lua --run-dir none 2>missing.txt
check [ "$(grep -c missing.lua missing.txt)" -eq 1 ]
