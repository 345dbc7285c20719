// Counts failures and chooses nodes.
#include "launch/slurm/node_pool.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

NodePool::NodePool(std::vector<std::string> nodes, int needed) : nodes_(std::move(nodes)), needed_(needed) {
  RAILYARD_CHECK(needed > 0 && static_cast<std::size_t>(needed) <= nodes_.size(), "{} of {} nodes", needed,
                 nodes_.size());
}

bool NodePool::lose(const std::string& node) {
  if (!contains(nodes_, node) || contains(out_, node)) return false;
  out_.push_back(node);
  return true;
}

bool NodePool::fail(const std::string& node) {
  if (!contains(nodes_, node) || contains(out_, node)) return false;
  if (++failures_[node] < 2 || spares() == 0) return false;
  out_.push_back(node);
  return true;
}

std::vector<std::string> NodePool::usable() const {
  std::vector<std::string> left;
  for (const std::string& node : nodes_)
    if (!contains(out_, node)) left.push_back(node);
  return left;
}

int NodePool::spares() const { return std::max(0, static_cast<int>(usable().size()) - needed_); }

std::optional<std::vector<std::string>> NodePool::choose() const {
  auto left = usable();
  if (left.size() < static_cast<std::size_t>(needed_)) return std::nullopt;
  left.resize(static_cast<std::size_t>(needed_));
  return left;
}

}  // namespace railyard::launch
