// Embedding, softmax statistics, their combination over ranks, and the gradient of the cross entropy.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class LossTest : public OperationTest {};

TEST_P(LossTest, EmbeddingForwardAndBackward) {
  for (const std::int64_t columns : {1, 7, 64, 129}) {
    const std::int64_t rows = 13, first = 20, tokens = 57;
    const Numbers table = random_numbers(rows * columns, 1, type()),
                  before = random_numbers(tokens * columns, 2, type());
    const Numbers grad = random_numbers(tokens * columns, 3, type()),
                  sums = random_numbers(rows * columns, 4, DType::kFloat32);
    std::vector<std::int32_t> ids;
    for (std::int64_t token = 0; token < tokens; ++token)
      ids.push_back(static_cast<std::int32_t>(15 + token * token % 23));
    const Tensor where = upload_integers(ids, DType::kInt32), rows_tensor = upload(table, type(), Shape{rows, columns});
    for (const bool accumulate : {false, true}) {
      Numbers want = accumulate ? before : Numbers(before.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        const std::int64_t row = ids[i / static_cast<std::size_t>(columns)] - first;
        if (row >= 0 && row < rows)
          want[i] += table[static_cast<std::size_t>(row * columns) + i % static_cast<std::size_t>(columns)];
      }
      const Tensor out = upload(before, type(), Shape{tokens, columns});
      backend().embedding_forward(where, rows_tensor, first, accumulate, out);
      expect_close(download(out), want, type(), "embedding");
    }
    Numbers want = sums;
    for (std::size_t i = 0; i < grad.size(); ++i) {
      const std::int64_t row = ids[i / static_cast<std::size_t>(columns)] - first;
      if (row >= 0 && row < rows)
        want[static_cast<std::size_t>(row * columns) + i % static_cast<std::size_t>(columns)] += grad[i];
    }
    const Tensor gradient = upload(grad, type(), Shape{tokens, columns});
    const Tensor grad_table = upload(sums, DType::kFloat32, Shape{rows, columns});
    backend().embedding_backward(where, gradient, first, grad_table);
    expect_close(download(grad_table), want, DType::kFloat32, "embedding gradient");
    const auto bits = download_bytes(grad_table);
    for (int run = 0; run < 3; ++run) {
      const Tensor again = upload(sums, DType::kFloat32, Shape{rows, columns});
      backend().embedding_backward(where, gradient, first, again);
      EXPECT_EQ(download_bytes(again), bits);
    }
  }
}

// A vocabulary split over `ranks`, its last columns padding: loss and gradient must be those of the whole.
TEST_P(LossTest, CrossEntropyOverAnySplit) {
  for (const std::int64_t vocabulary : {2, 11, 65, 1000})
    for (const std::int64_t ranks : {1, 2, 5}) {
      const std::int64_t rows = 21, per_rank = (vocabulary + ranks - 1) / ranks + 3, whole = per_rank * ranks;
      const Numbers logits = random_numbers(rows * whole, 1, type(), 3.0);
      std::vector<std::int32_t> labels;
      Numbers weights;
      for (std::int64_t row = 0; row < rows; ++row) {
        labels.push_back(static_cast<std::int32_t>(row * 7919 % vocabulary));
        weights.push_back(row % 4 == 1 ? 0.0 : row % 4 == 2 ? 0.5 : 1.0);
      }
      const float factor = 0.25F;
      double loss = 1.0;  // what the loss held before
      Numbers log_sum_exp(static_cast<std::size_t>(rows)), gradient(logits.size());
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        const double* at = &logits[row * static_cast<std::size_t>(whole)];
        double maximum = -INFINITY, total = 0.0;
        for (std::int64_t i = 0; i < vocabulary; ++i) maximum = std::max(maximum, at[i]);
        for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(at[i] - maximum);
        log_sum_exp[row] = maximum + std::log(total);
        loss += weights[row] * (log_sum_exp[row] - at[labels[row]]);
        for (std::int64_t i = 0; i < vocabulary; ++i)
          gradient[row * static_cast<std::size_t>(whole) + static_cast<std::size_t>(i)] =
              (std::exp(at[i] - log_sum_exp[row]) - (i == labels[row] ? 1.0 : 0.0)) * weights[row] *
              static_cast<double>(factor);
      }

      const Tensor label_tensor = upload_integers(labels, DType::kInt32);
      const Tensor weight_tensor = upload(weights, DType::kFloat32, Shape{rows});
      const Tensor parts = unset(DType::kFloat32, Shape{ranks, rows, 3});
      std::vector<Tensor> pieces;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        Numbers piece;
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t i = 0; i < per_rank; ++i)
            piece.push_back(logits[static_cast<std::size_t>(row * whole + rank * per_rank + i)]);
        pieces.push_back(upload(piece, type(), Shape{rows, per_rank}));
        const std::int64_t valid = std::clamp<std::int64_t>(vocabulary - rank * per_rank, 0, per_rank);
        backend().softmax_statistics(pieces.back(), valid, label_tensor, rank * per_rank,
                                     parts.flat(rank * rows * 3, rows * 3));
      }
      const Tensor lse = unset(DType::kFloat32, Shape{rows}), sum = upload({1.0}, DType::kFloat64, Shape{1});
      backend().combine_statistics(parts, weight_tensor, lse, sum);
      const std::string what = fmt::format("vocabulary {} over {} ranks: ", vocabulary, ranks);
      expect_close(download(lse), log_sum_exp, DType::kFloat32, what + "log_sum_exp");
      EXPECT_NEAR(download(sum)[0], loss, 1e-6 * std::abs(loss)) << what;
      Numbers got(logits.size());
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t valid = std::clamp<std::int64_t>(vocabulary - rank * per_rank, 0, per_rank);
        backend().cross_entropy_gradient(pieces[static_cast<std::size_t>(rank)], valid, label_tensor, rank * per_rank,
                                         lse, weight_tensor, factor);
        const Numbers piece = download(pieces[static_cast<std::size_t>(rank)]);
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t i = 0; i < per_rank; ++i)
            got[static_cast<std::size_t>(row * whole + rank * per_rank + i)] =
                piece[static_cast<std::size_t>(row * per_rank + i)];
      }
      expect_close(got, gradient, type(), what + "gradient");
    }
}

TEST_P(LossTest, NonFiniteLogitsReachTheLoss) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
    for (const std::size_t where : {0U, 17U, 36U}) {
      Numbers logits = random_numbers(37, 1, type());
      logits[where] = bad;
      const Tensor statistics = unset(DType::kFloat32, Shape{1, 1, 3}), lse = unset(DType::kFloat32, Shape{1});
      const Tensor sum = upload({0.0}, DType::kFloat64, Shape{1});
      backend().softmax_statistics(upload(logits, type(), Shape{1, 37}), 37,
                                   upload_integers(std::vector<std::int32_t>{3}, DType::kInt32), 0, statistics);
      backend().combine_statistics(statistics, upload({1.0}, DType::kFloat32, Shape{1}), lse, sum);
      EXPECT_FALSE(std::isfinite(download(sum)[0])) << bad << " at " << where;
    }
}

RAILYARD_OPERATION_TESTS(LossTest);

}  // namespace
}  // namespace railyard::test
