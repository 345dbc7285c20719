# railyard topo over an allocation: nodes that are alike stand together, one with a port down is marked. Each pretend
# node gets HCAs of its own; /sys/class is bound over in its mount namespace.
class_of() {  # class_of NODE STATE_OF_THE_LAST
  local i port
  for i in 0 1 2 3; do
    port=$1.class/infiniband/mlx5_$i/ports/1
    mkdir -p "$port"
    echo "4: ACTIVE" >"$port/state"
    echo "400 Gb/sec (4X NDR)" >"$port/rate"
    echo InfiniBand >"$port/link_layer"
  done
  echo "$2" >"$port/state"
  "$here/sandbox" on "$1" mount --bind "$PWD/$1.class" /sys/class
}
for k in 1 2 3 4; do class_of "node$k" "$([ $k = 3 ] && echo '1: DOWN' || echo '4: ACTIVE')"; done
salloc -N4 railyard topo >topo.txt
says 'node\[1-2,4\]' topo.txt
says 'node3' topo.txt
exits 1 salloc -N4 railyard topo --check >check.txt
says 'node3: unlike the other nodes: .*mlx5_3' check.txt
check [ "$(grep -c 'node[124]:' check.txt)" -eq 0 ]
salloc -N4 railyard topo --json >topo.json
check [ "$(grep -c '"name": "node' topo.json)" -eq 4 ]
check [ "$(grep -c '"name": "leaf' topo.json)" -eq 2 ]
exits 0 salloc -N2 -w node1,node2 railyard topo --check >check.txt
for k in 1 2 3 4; do "$here/sandbox" on "node$k" umount /sys/class; done

# doctor in a step: nothing grave with PMIx; without it, why ranks do not find each other.
code=0
srun -n2 --mpi=pmix railyard doctor >doctor.txt || code=$?
check [ "$code" -le 1 ]
check [ "$(grep -c '^pmi:' doctor.txt)" -eq 0 ]
exits 1 srun -n2 --mpi=none railyard doctor >doctor.txt
says '^pmi: this step of 2 tasks was started without PMIx.*remedy: srun --mpi=pmix' doctor.txt
srun -n1 --mpi=pmix railyard doctor --json >doctor.json || true
says '"schema": 1' doctor.json
