// Numbers for people: the same on the console, in status and in reports.
#pragma once

#include <cstdint>
#include <string>

namespace railyard {

std::string format_loss(double loss);           // 1.8857
std::string format_learning_rate(double rate);  // 1.00E-3
std::string format_grouped(double value);       // 61,564
std::string format_significant(double value);   // 506.1, 5.06, 0.0051: one decimal from 10 up, else three digits
std::string format_seconds(double seconds);     // 0.27 s, 12.3 ms, 4.10 s, 31.4 s
std::string format_clock(double seconds);       // 00:08:12, 2d 03:04:05
std::string format_gib(double gib);             // 51.0 GiB, 29.1 MiB
std::string format_tflops(double tflops);       // 506.1 TFLOP/s, 21.3 GFLOP/s: what a small machine does shows too
std::string format_bytes(double bytes);         // 51.0 GiB

}  // namespace railyard
