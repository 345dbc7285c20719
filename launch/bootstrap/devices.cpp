// Reads masks and device nodes, and gives each local rank a device.
#include "launch/bootstrap/devices.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

std::vector<std::string> entries(const std::string& mask) {
  std::vector<std::string> list;
  std::istringstream words(mask);
  for (std::string word; std::getline(words, word, ',');) {
    // CUDA ignores what follows the first entry that names nothing, such as -1 or NoDevFiles.
    if (word.empty() || word == "-1" || word == "NoDevFiles") break;
    list.push_back(word);
  }
  return list;
}

}  // namespace

VisibleDevices visible_devices(const std::string& device_folder) {
  VisibleDevices seen;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(device_folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool numbered =
        name.size() > 6 && name.starts_with("nvidia") &&
        std::all_of(name.begin() + 6, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!numbered) continue;
    ++seen.on_node;
    const int descriptor = open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) continue;
    ++seen.openable;
    close(descriptor);
  }
  seen.count = seen.openable;
  if (const char* mask = std::getenv("CUDA_VISIBLE_DEVICES"); mask != nullptr) {
    seen.mask = mask;
    seen.masked = true;
    // A mask may name fewer than there are; MIG devices are more than the device nodes.
    const auto list = entries(seen.mask);
    const bool mig =
        std::any_of(list.begin(), list.end(), [](const std::string& entry) { return entry.starts_with("MIG-"); });
    seen.count = mig ? static_cast<int>(list.size()) : std::min(seen.openable, static_cast<int>(list.size()));
    if (seen.mask.empty()) seen.count = 0;
  }
  return seen;
}

std::vector<SeenGpu> shown_by_mask(const std::vector<SeenGpu>& openable, const std::string& mask) {
  std::vector<std::vector<SeenGpu>> whole;  // by PCI address: a GPU, or its MIG devices
  for (const SeenGpu& gpu : openable) {
    if (whole.empty() || whole.back().front().pci != gpu.pci || !gpu.mig) whole.emplace_back();
    whole.back().push_back(gpu);
  }
  std::vector<SeenGpu> shown;
  for (const std::string& entry : entries(mask)) {
    const SeenGpu* found = nullptr;
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (error == std::errc{} && end == entry.data() + entry.size()) {
      if (number < whole.size()) found = &whole[number].front();
    } else {
      const auto begins = [&](const SeenGpu& gpu) { return gpu.uuid.starts_with(entry); };
      if (std::count_if(openable.begin(), openable.end(), begins) == 1)
        found = &*std::find_if(openable.begin(), openable.end(), begins);
    }
    if (found == nullptr) break;
    if (std::find(shown.begin(), shown.end(), *found) != shown.end())
      return {};  // CUDA takes a repetition for an error
    shown.push_back(*found);
  }
  return shown;
}

std::vector<std::string> masking_notes(const std::vector<VisibleDevices>& local, bool widened) {
  std::vector<std::string> notes;
  if (local.size() < 2) return notes;
  const bool masked = std::any_of(local.begin(), local.end(), [&](const VisibleDevices& seen) {
    return seen.masked && seen.mask != local.front().mask;
  });
  const auto restricted =
      std::find_if(local.begin(), local.end(), [](const VisibleDevices& seen) { return seen.openable < seen.on_node; });
  const bool alone = restricted != local.end() && restricted->openable < static_cast<int>(local.size());
  if (masked && !alone)
    notes.emplace_back(
        widened ? "CUDA_VISIBLE_DEVICES hides the ranks' GPUs from each other (--gpus-per-task?): it is widened to all "
                  "that this run has here, so that NVLink and P2P between ranks stay usable"
                : "CUDA_VISIBLE_DEVICES hides the ranks' GPUs from each other: NVLink and P2P between ranks may be "
                  "lost; start without --gpus-per-task (or with --gpu-bind=none)");
  if (alone)
    notes.push_back(
        fmt::format("a device cgroup lets each rank open {} of {} GPUs: NVLink and P2P between ranks are lost; ask "
                    "Slurm for --gpus-per-node without --gpus-per-task",
                    restricted->openable, restricted->on_node));
  return notes;
}

std::vector<int> device_ordinals(const std::string& host, const std::vector<VisibleDevices>& local, bool shared) {
  std::vector<int> ordinals;
  std::set<std::string> used;
  for (std::size_t rank = 0; rank < local.size(); ++rank) {
    const VisibleDevices& seen = local[rank];
    const auto list = entries(seen.mask);
    const auto same =
        std::count_if(local.begin(), local.end(), [&](const VisibleDevices& other) { return other.mask == seen.mask; });
    // Ranks with equal views divide what they see; a view of a rank's own gives its first device.
    int place = 0;
    for (std::size_t other = 0; other < rank; ++other) place += local[other].mask == seen.mask ? 1 : 0;
    const bool mig = seen.mask.find("MIG-") != std::string::npos;
    if (shared && !mig && seen.count > 0) {
      ordinals.push_back(place % seen.count);
      continue;
    }
    if (place >= seen.count)
      throw UsageError(
          "{}: {} ranks on this node see {} device{}{}: each rank needs one of its own (a MIG device takes one rank). "
          "Start fewer "
          "ranks a node, ask for more devices, or, to try a layout, share them with run.communicator = \"mpi\"",
          host, same, seen.count, seen.count == 1 ? "" : "s",
          seen.mask.empty() ? "" : " (CUDA_VISIBLE_DEVICES=" + seen.mask + ")");
    if (!seen.mask.empty() && static_cast<std::size_t>(place) < list.size() &&
        !used.insert(list[static_cast<std::size_t>(place)]).second)
      // Different masks that begin with the same device; a device cgroup numbers from 0 for everyone, and tells apart
      // by what can be opened.
      if (seen.openable == seen.on_node)
        throw UsageError("{}: two ranks would use device {}: their CUDA_VISIBLE_DEVICES overlap", host,
                         list[static_cast<std::size_t>(place)]);
    ordinals.push_back(place);
  }
  return ordinals;
}

}  // namespace railyard::launch
