// The calibration file: rates of one kind of device as `railyard bench` measured them. The planner reads it.
//
// {"schema": 1, "device": "NVIDIA H200", "date": "2026-12-01", "program": "railyard 0.1.0", "copy_gb_s": 4250 or null,
//  "gemm":      [{"dtype": "bf16", "m": 8192, "n": 4096, "k": 14336, "tflops": 690.1}, ...],
//  "attention": [{"tokens": 8192, "heads": 32, "head_dim": 128, "dtype": "bf16", "forward_tflops", "backward_tflops"}],
//  "comm":      [{"operation": "all_gather", "ranks": 8, "bytes": 33554432, "gb_s": 240.5, "class": "nvlink"}, ...]}
//
// gemm: D [m, n] = A [m, k] B [k, n], dtype "bf16", "fp8" or "fp32" of A and B. attention: causal, sequences of
// `tokens`, FLOPs counted causal at half, the backward pass as 2.5 times the forward one (it computes the scores
// again). copy_gb_s: bytes read plus bytes written of a device-to-device copy, over its time. comm: `bytes` of the
// whole message and gb_s the rate at which each rank sends ("bus bandwidth" of nccl-tests); operation all_reduce,
// all_gather, reduce_scatter or send_recv; class as the links of plan --json. Groups of a class between nodes have one
// rank on each, and all ranks of the nodes are busy at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard::launch {

struct GemmRate {
  std::string dtype;
  std::int64_t m = 0, n = 0, k = 0;
  double tflops = 0;
};

struct AttentionRate {
  std::int64_t tokens = 0, heads = 0, head_dim = 0;
  std::string dtype;
  double forward_tflops = 0, backward_tflops = 0;
};

struct CommRate {
  std::string operation;
  int ranks = 0;
  double bytes = 0;
  double gb_s = 0;
  std::string link_class;
};

struct Calibration {
  std::string device;               // as the driver names it
  std::string date;                 // "YYYY-MM-DD" of the newest entry
  std::string program;              // name and version of what measured
  std::optional<double> copy_gb_s;  // bytes read plus bytes written of a device-to-device copy, over its time
  std::vector<GemmRate> gemm;
  std::vector<AttentionRate> attention;
  std::vector<CommRate> comm;

  [[nodiscard]] Json to_json() const;
  // UsageError, naming `source` and the key, when the document is none or a value makes no sense.
  static Calibration from_json(const Json& document, const std::string& source);

  // Takes what `newer` measured: entries of the same shape are replaced, others added.
  void merge(const Calibration& newer);
};

struct CalibrationSearch {
  std::optional<std::string> named;  // $RAILYARD_CALIBRATION: a file (*.json) or a folder of DEVICE.json
  std::optional<std::string> home;   // ~/.cache/railyard/calibration ($XDG_CACHE_HOME)
  std::optional<std::string> site;   // paths.cache of the site, its folder "calibration"
};
// From the environment and the site's paths.cache (empty: none).
[[nodiscard]] CalibrationSearch calibration_search(const std::string& site_cache);

// DEVICE.json: the device's name with everything but letters, digits, '.' and '-' as '_'.
[[nodiscard]] std::string calibration_file_name(const std::string& device);

struct FoundCalibration {
  std::filesystem::path path;
  Calibration calibration;
};
// The file of this device, or of another name of the same GPU (gpu_spec.hpp), in the order of the fields above. A file
// that RAILYARD_CALIBRATION names counts for every device; where it is broken or absent, UsageError. Folders that
// cannot be read hold nothing.
[[nodiscard]] std::optional<FoundCalibration> find_calibration(const std::string& device,
                                                               const CalibrationSearch& search);

// Writes to the first place of `search` that can be written, merged into what is there (a broken file is replaced), and
// returns the path. The file is replaced atomically. RunError naming the places when none can be written.
std::filesystem::path store_calibration(const Calibration& calibration, const CalibrationSearch& search);

}  // namespace railyard::launch
