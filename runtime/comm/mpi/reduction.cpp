// The phases of a sum over a group.
#include "runtime/comm/mpi/reduction.hpp"

#include <algorithm>

#include "runtime/comm/mpi/wait.hpp"

namespace railyard::mpi {
namespace {

constexpr int kExchangeTag = 1, kShareTag = 2;  // 0 is for the group's own messages

float element(const float* values, std::int64_t index) { return values[index]; }
float element(const std::uint16_t* values, std::int64_t index) { return bf16_to_float(values[index]); }
void put(float* values, std::int64_t index, float value) { values[index] = value; }
void put(std::uint16_t* values, std::int64_t index, float value) { values[index] = float_to_bf16(value); }

// result[i] = sum over ranks of their element i, in the order of the ranks; this rank's own are `mine`, the others
// follow one another in `others`. Few numbers at a time, so that sums stay in the nearest cache.
template <class T>
void add_in_order(int rank, int size, const T* mine, const T* others, std::int64_t count, T* result) {
  constexpr std::int64_t kPiece = 1024;
  float sums[kPiece];
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, count - begin);
    for (int member = 0; member < size; ++member) {
      const T* from = (member == rank ? mine : others + (member < rank ? member : member - 1) * count) + begin;
      if (member == 0) {
        for (std::int64_t i = 0; i < length; ++i) sums[i] = element(from, i);
      } else {
        for (std::int64_t i = 0; i < length; ++i) sums[i] += element(from, i);
      }
    }
    for (std::int64_t i = 0; i < length; ++i) put(result + begin, i, sums[i]);
  }
}

}  // namespace

Reduction::Reduction(Members members, DType type, const std::byte* data, std::byte* result, std::int64_t count,
                     std::byte* staging, bool share)
    : members_(members), type_(type), data_(data), result_(result), count_(count), staging_(staging), share_(share) {
  if (count == 0) phase_ = Phase::kDone;
}

std::shared_ptr<Reduction> Reduction::all_reduce(Members members, DType type, std::byte* data, std::int64_t count,
                                                 std::byte* staging) {
  return std::shared_ptr<Reduction>(new Reduction(members, type, data, data, count, staging, true));
}

std::shared_ptr<Reduction> Reduction::reduce_scatter(Members members, DType type, const std::byte* data,
                                                     std::byte* result, std::int64_t count, std::byte* staging) {
  return std::shared_ptr<Reduction>(new Reduction(members, type, data, result, count, staging, false));
}

std::size_t Reduction::staging_bytes(int size, DType type, std::int64_t block_count) {
  return static_cast<std::size_t>((size - 1) * std::min(block_count, kBlock)) * dtype_size(type);
}

// all_reduce cuts each chunk of the whole into blocks; reduce_scatter takes a piece of every rank's block.
std::int64_t Reduction::block_begin(int rank) const {
  if (!share_) return rank * count_ + chunk_;
  const std::int64_t length = std::min(kBlock * members_.size, count_ - chunk_);
  return chunk_ + length * rank / members_.size;
}

std::int64_t Reduction::block_size(int rank) const {
  if (!share_) return std::min(kBlock, count_ - chunk_);
  return block_begin(rank + 1) - block_begin(rank);
}

void Reduction::start_exchange() {
  const std::size_t width = dtype_size(type_);
  const auto mine = block_size(members_.rank);
  std::byte* to = staging_;
  requests_.clear();
  for (int peer = 0; peer < members_.size; ++peer) {
    if (peer == members_.rank) continue;
    const auto bytes = static_cast<int>(static_cast<std::size_t>(mine) * width);
    check(MPI_Irecv(to, bytes, MPI_BYTE, peer, kExchangeTag, members_.communicator,
                    &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
    to += bytes;
  }
  // Ranks start with their right neighbour, so that not all send to rank 0 first.
  for (int distance = 1; distance < members_.size; ++distance) {
    const int peer = (members_.rank + distance) % members_.size;
    check(MPI_Isend(data_ + static_cast<std::size_t>(block_begin(peer)) * width,
                    static_cast<int>(static_cast<std::size_t>(block_size(peer)) * width), MPI_BYTE, peer, kExchangeTag,
                    members_.communicator, &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }
}

void Reduction::add() {
  const std::size_t width = dtype_size(type_);
  const std::byte* mine = data_ + static_cast<std::size_t>(block_begin(members_.rank)) * width;
  std::byte* result = share_ ? result_ + static_cast<std::size_t>(block_begin(members_.rank)) * width
                             : result_ + static_cast<std::size_t>(chunk_) * width;
  const std::int64_t count = block_size(members_.rank);
  if (type_ == DType::kBFloat16) {
    add_in_order(members_.rank, members_.size, reinterpret_cast<const std::uint16_t*>(mine),
                 reinterpret_cast<const std::uint16_t*>(staging_), count, reinterpret_cast<std::uint16_t*>(result));
  } else {
    add_in_order(members_.rank, members_.size, reinterpret_cast<const float*>(mine),
                 reinterpret_cast<const float*>(staging_), count, reinterpret_cast<float*>(result));
  }
}

void Reduction::start_share() {
  const std::size_t width = dtype_size(type_);
  requests_.clear();
  for (int distance = 1; distance < members_.size; ++distance) {
    const int from = (members_.rank + members_.size - distance) % members_.size,
              to = (members_.rank + distance) % members_.size;
    check(MPI_Irecv(result_ + static_cast<std::size_t>(block_begin(from)) * width,
                    static_cast<int>(static_cast<std::size_t>(block_size(from)) * width), MPI_BYTE, from, kShareTag,
                    members_.communicator, &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
    check(MPI_Isend(result_ + static_cast<std::size_t>(block_begin(members_.rank)) * width,
                    static_cast<int>(static_cast<std::size_t>(block_size(members_.rank)) * width), MPI_BYTE, to,
                    kShareTag, members_.communicator, &requests_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }
}

bool Reduction::test() {
  int done = 0;
  check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
  return done != 0;
}

bool Reduction::advance() {
  while (phase_ != Phase::kDone) {
    if (phase_ == Phase::kStart) {
      start_exchange();
      phase_ = Phase::kExchange;
    }
    if (!test()) return false;
    if (phase_ == Phase::kExchange) {
      add();
      if (share_) {
        start_share();
        phase_ = Phase::kShare;
        continue;
      }
    }
    chunk_ += share_ ? std::min(kBlock * members_.size, count_ - chunk_) : block_size(members_.rank);
    phase_ = chunk_ < count_ ? Phase::kStart : Phase::kDone;
  }
  return true;
}

}  // namespace railyard::mpi
