#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/cuda/attention_tile.hpp>

#include <limits>

namespace mailgrad::cuda {

namespace {

/// The softmax of rows whose scores come tile by tile. All threads of a row know its largest score, and
/// each has the sum of its own columns.
template <class Tile>
struct online_softmax {
  float largest[Tile::thread_rows], sum[Tile::thread_rows];

  __device__ explicit online_softmax(float lowest) {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      largest[i] = lowest;
      sum[i] = 0;
    }
  }

  /// Turns scores into weights, relative to the largest score so far. What was added up under a smaller one
  /// is scaled down.
  __device__ void weigh(attention_pairs<Tile>& scores, attention_rows<Tile>& sums, float scale) {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      float most = largest[i];
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) most = larger{}(most, scores.v[i][j]);
      most = over_lanes(most, Tile::row_threads, larger{});
      const float correction = power_of_2((largest[i] - most) * scale);
      largest[i] = most;
      sum[i] *= correction;
      sums.scale(i, correction);
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) {
        scores.v[i][j] = power_of_2((scores.v[i][j] - most) * scale);
        sum[i] += scores.v[i][j];
      }
    }
  }
};

/// Scores of keys behind the query get `lowest`. Key 0 is before every query, so each row has a larger one.
template <class Tile>
__device__ void mask(attention_pairs<Tile>& scores, unsigned first_query, unsigned first_key, float lowest,
                     const attention_place<Tile>& at) {
#pragma unroll
  for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns; ++j)
      if (first_key + at.column(j) > first_query + at.row(i)) scores.v[i][j] = lowest;
}

/// The longest rows come first, so that no block begins one when the others end.
template <class Tile, class Y>
__global__ void __launch_bounds__(Tile::threads, 2)
    attention_kernel(attention_heads heads, const typename Tile::number* qkv, Y* y, float* log_sums,
                     float scale, float lowest) {
  auto* const queries = shared_memory<typename Tile::number>();
  auto* const columns = queries + Tile::vectors_of_rows;
  auto* const room = columns + Tile::tiles * 2 * Tile::vectors_of_columns;
  const attention_place<Tile> at;
  const auto window = static_cast<unsigned>(heads.a.window);
  const unsigned first = (gridDim.y - 1 - blockIdx.y) * Tile::rows;
  const unsigned end = window - first < Tile::rows ? window : first + Tile::rows;
  online_softmax<Tile> softmax(lowest);
  attention_rows<Tile> result{};

  load_vectors<Tile, Tile::rows>(queries, heads.vectors_of_qkv(qkv, 0), first);
  const auto load = [&](typename Tile::number* to, unsigned key) {
    load_vectors<Tile, Tile::columns>(to, heads.vectors_of_qkv(qkv, 1), key);
    load_vectors<Tile, Tile::columns>(to + Tile::vectors_of_columns, heads.vectors_of_qkv(qkv, 2), key);
  };
  tiles_in_turn<Tile, decltype(load)> tiles(columns, 2 * Tile::vectors_of_columns, 0, end, load);
  for (unsigned key = 0; key < end; key += Tile::columns) {
    const auto* const keys = tiles.at(key);
    const auto* const values = keys + Tile::vectors_of_columns;
    if (key >= first + at.warp_row + Tile::warp_rows) continue; // no row of this warp sees these keys
    attention_pairs<Tile> scores;
    scores.multiply(queries, keys, at);
    if (key + Tile::columns > first + 1) mask(scores, first, key, lowest, at);
    softmax.weigh(scores, result, scale * log2_of_e);
    result.add(scores, values, room, at);
  }

#pragma unroll
  for (unsigned i = 0; i < Tile::thread_rows; ++i) {
    const float sum = over_lanes(softmax.sum[i], Tile::row_threads, plus{});
    result.scale(i, 1 / sum);
    const unsigned position = first + at.row(i);
    if (at.lane == 0 && position < window)
      log_sums[heads.in_positions() + position] = softmax.largest[i] * scale + logf(sum);
  }
  result.store(y + heads.in_y(), heads.layout_of_y(), first, at);
}

template <class Tile, class Y>
void run(const cuda_stream& s, const attention_shape& a, const typename Tile::number* qkv, Y* y,
         float* log_sums) {
  constexpr unsigned numbers =
      Tile::vectors_of_rows + Tile::tiles * 2 * Tile::vectors_of_columns + Tile::weights;
  launch(s, "causal_attention", attention_grid<Tile>(a), Tile::threads, numbers * sizeof(*qkv),
         attention_kernel<Tile, Y>, heads_of<Tile>(a, qkv, y), qkv, y, log_sums, attention_scale(a),
         -std::numeric_limits<float>::infinity());
}

} // namespace

void causal_attention(const cuda_stream& s, const attention_shape& a, const float* qkv, float* y,
                      float* log_sums) {
  if (a.batch * a.window * a.width() == 0) return;
  if (a.head_width <= 32) return run<attention_tile<32, 4, 8, 8>>(s, a, qkv, y, log_sums);
  if (a.head_width <= 64) return run<attention_tile<64, 4, 8, 8>>(s, a, qkv, y, log_sums);
  if (a.head_width <= 96) return run<attention_tile<96, 4, 4, 8>>(s, a, qkv, y, log_sums);
  run<attention_tile<128, 4, 4, 4>>(s, a, qkv, y, log_sums);
}

void causal_attention(const cuda_stream& s, const attention_shape& a, const bfloat16* qkv, written_numbers y,
                      float* log_sums) {
  if (a.batch * a.window * a.width() == 0) return;
  std::visit(
      [&](auto* to) {
        if (a.head_width <= 64) return run<attention_matrices<64, 4, 2, 64>>(s, a, qkv, to, log_sums);
        run<attention_matrices<128, 4, 1, 64>>(s, a, qkv, to, log_sums);
      },
      y);
}

} // namespace mailgrad::cuda
