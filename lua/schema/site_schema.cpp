// Every key of a site file. What is not given stays unknown (null): nothing is guessed.
#include "lua/schema/site_schema.hpp"

namespace railyard::lua {
namespace {

std::vector<Key> keys() {
  return {
      text("name", "of the site").required(),
      table("match", "where this file is chosen by itself"),
      text("match.slurm_cluster", "ClusterName of Slurm").value(nullptr),
      table("node", "what a node is"),
      integer("node.gpus", "GPUs of a node").range(0, 1024),
      text("node.gpu", "their kind, such as H100-SXM5-80GB").value(nullptr),
      bytes("node.memory", "host memory"),
      integer("node.nvlink_domain", "GPUs joined by NVLink; more than a node's in a rack such as NVL72")
          .range(1, 1 << 16),
      table("fabric", "what joins the nodes"),
      text("fabric.kind", "the network").value(nullptr).one_of({"ib", "roce", "efa", "slingshot", "tcp"}),
      integer("fabric.rails", "NICs of a node that carry training traffic").range(0, 1024),
      number("fabric.nic_gbps", "rate of such a NIC in Gbit/s").above(0).below_or_at(1e5),
      texts("fabric.nic_exclude", "NICs that are no rails: storage, management"),
      text("fabric.topology", "where the switches are described: \"slurm\", or a file").value(nullptr),
      integer("fabric.leaf_nodes", "nodes below a first-level switch").range(1, 1e6),
      texts("fabric.socket_if", "network interfaces for start-up traffic"),
      texts("fabric.ports", "ports to use, such as mlx5_0:1"),
      integer("fabric.gid_index", "RoCE address index").range(0, 255),
      table("slurm", "how jobs are submitted; a job's own #SBATCH lines count more"),
      text("slurm.partition", "partition").value(nullptr),
      text("slurm.account", "account").value(nullptr),
      text("slurm.qos", "quality of service").value(nullptr),
      text("slurm.mpi", "srun's --mpi").value("pmix"),
      texts("slurm.modules", "environment modules to load"),
      text("slurm.container", "container image that the ranks run in").value(nullptr),
      text("slurm.container_runtime", "what runs it").value("pyxis").one_of({"pyxis", "apptainer"}),
      texts("slurm.container_mounts", "folders that it sees, as /host:/inside or /both"),
      table("paths", "where files go"),
      text("paths.runs", "folder of run directories").value(nullptr),
      text("paths.cache", "folder of caches").value(nullptr),
      text_map("setenv", "environment variables of all ranks"),
      function("on_node", "called with a node's topology; may return it changed"),
      function("on_map", "called with the placement; may return it changed"),
      function("on_env", "called with a rank; returns environment variables"),
  };
}

}  // namespace

const Schema& site_schema() {
  static const Schema schema(keys());
  return schema;
}

}  // namespace railyard::lua
