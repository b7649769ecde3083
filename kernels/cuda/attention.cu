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
  auto* const workspace = columns + Tile::tiles * 2 * Tile::vectors_of_columns;
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
    result.add(scores, values, workspace, at);
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

void attend(const cuda_stream& s, const attention_shape& a, const float* qkv, float* y, float* log_sums) {
  if (a.head_width <= 32) return run<attention_tile<32, 4, 8, 8>>(s, a, qkv, y, log_sums);
  if (a.head_width <= 64) return run<attention_tile<64, 4, 8, 8>>(s, a, qkv, y, log_sums);
  if (a.head_width <= 96) return run<attention_tile<96, 4, 4, 8>>(s, a, qkv, y, log_sums);
  run<attention_tile<128, 4, 4, 4>>(s, a, qkv, y, log_sums);
}

void attend(const cuda_stream& s, const attention_shape& a, const bfloat16* qkv, written_numbers y,
            float* log_sums) {
  std::visit(
      [&](auto* to) {
        if (a.head_width <= 64) return run<attention_matrices<64, 4, 2, 64>>(s, a, qkv, to, log_sums);
        run<attention_matrices<128, 4, 1, 64>>(s, a, qkv, to, log_sums);
      },
      y);
}

template <class T>
struct attention_operands {
  attention_heads heads;
  const T *qkv, *dy;
  const float *log_sums, *projections; ///< float32[batch, heads, window]
  float scale;

  /// The probability of a pair, from the product of its vectors and the row's logarithm.
  __device__ float probability(float product, float log_sum) const {
    return power_of_2(product * (scale * log2_of_e) - log_sum * log2_of_e);
  }
};

/// Of float32[batch, heads, window], for a row of float32[batch, window, heads].
__device__ inline std::size_t place_of_projection(const attention_shape& a, std::size_t row) {
  const std::size_t position = row / a.heads, head = row % a.heads;
  return (position / a.window * a.heads + head) * a.window + position % a.window;
}

/// The projection of each query: the product of its result and the gradient of that, which is the sum of dP P
/// along its row.
template <unsigned count, unsigned size>
__global__ void projection_kernel(attention_shape a, const float* y, const float* dy, float* projections,
                                  row_lanes n) {
  for_each_row(n, [=](std::size_t row, unsigned lane) {
    const register_row<count, size> of_y(y, n, row, lane, 0), of_dy(dy, n, row, lane, 0);
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) sum += of_y.v[i] * of_dy.v[i];
    sum = over_lanes(sum, n.width, plus{});
    if (row < n.rows && lane == 0) projections[place_of_projection(a, row)] = sum;
  });
}

template <class Y>
__global__ void rounded_projection_kernel(attention_shape a, const Y* y, const bfloat16* dy,
                                          float* projections, row_lanes n) {
  for_each_row(n, [=](std::size_t row, unsigned lane) {
    float sum = 0;
    if (row < n.rows)
      for (std::size_t i = row * n.columns + lane; i < (row + 1) * n.columns; i += n.width)
        sum += as_float(y[i]) * as_float(dy[i]);
    sum = over_lanes(sum, n.width, plus{});
    if (row < n.rows && lane == 0) projections[place_of_projection(a, row)] = sum;
  });
}

/// The gradient of the queries: dS K, where dS = P (dP - projection) / sqrt(d) and dP = dY V^T.
template <class Tile, class DQkv>
__global__ void __launch_bounds__(Tile::threads, 2)
    query_gradient_kernel(attention_operands<typename Tile::number> from, DQkv* dqkv) {
  auto* const queries = shared_memory<typename Tile::number>();
  auto* const dys = queries + Tile::vectors_of_rows;
  auto* const columns = dys + Tile::vectors_of_rows;
  auto* const workspace = columns + Tile::tiles * 2 * Tile::vectors_of_columns;
  const attention_place<Tile> at;
  const attention_heads& heads = from.heads;
  const auto window = static_cast<unsigned>(heads.a.window);
  const unsigned first = (gridDim.y - 1 - blockIdx.y) * Tile::rows;
  const unsigned end = window - first < Tile::rows ? window : first + Tile::rows;
  float log_sum[Tile::thread_rows] = {}, projection[Tile::thread_rows] = {};
#pragma unroll
  for (unsigned i = 0; i < Tile::thread_rows; ++i) {
    const unsigned position = first + at.row(i);
    if (position >= window) continue;
    log_sum[i] = from.log_sums[heads.in_positions() + position];
    projection[i] = from.projections[heads.in_positions() + position];
  }

  load_vectors<Tile, Tile::rows>(queries, heads.vectors_of_qkv(from.qkv, 0), first);
  load_vectors<Tile, Tile::rows>(dys, heads.vectors_of_y(from.dy), first);
  attention_rows<Tile> result{};
  const auto load = [&](typename Tile::number* to, unsigned key) {
    load_vectors<Tile, Tile::columns>(to, heads.vectors_of_qkv(from.qkv, 1), key);
    load_vectors<Tile, Tile::columns>(to + Tile::vectors_of_columns, heads.vectors_of_qkv(from.qkv, 2), key);
  };
  tiles_in_turn<Tile, decltype(load)> tiles(columns, 2 * Tile::vectors_of_columns, 0, end, load);
  for (unsigned key = 0; key < end; key += Tile::columns) {
    const auto* const keys = tiles.at(key);
    const auto* const values = keys + Tile::vectors_of_columns;
    if (key >= first + at.warp_row + Tile::warp_rows) continue; // no row of this warp sees these keys
    attention_pairs<Tile> scores, gradient;
    scores.multiply(queries, keys, at);
    gradient.multiply(dys, values, at);
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) {
        const bool hidden = key + at.column(j) > first + at.row(i);
        const float p = from.probability(scores.v[i][j], log_sum[i]);
        gradient.v[i][j] = hidden ? 0 : p * (gradient.v[i][j] - projection[i]) * from.scale;
      }
    result.add(gradient, keys, workspace, at);
  }
  result.store(dqkv + heads.in_qkv(0), heads.layout_of_qkv(), first, at);
}

/// Numbers of shared memory for a tile of queries: their vectors and those of dY, and two floats of each.
template <class Tile>
constexpr unsigned column_numbers = 2 * Tile::vectors_of_columns +
                                    2 * Tile::columns * sizeof(float) / sizeof(typename Tile::number);

/// The gradients of keys and values: dS^T Q and P^T dY. Here the rows are keys, and the columns queries.
template <class Tile, class DQkv>
__global__ void __launch_bounds__(Tile::threads, 2)
    key_gradient_kernel(attention_operands<typename Tile::number> from, DQkv* dqkv) {
  auto* const keys = shared_memory<typename Tile::number>();
  auto* const values = keys + Tile::vectors_of_rows;
  auto* const columns = values + Tile::vectors_of_rows;
  auto* const workspace = columns + Tile::tiles * column_numbers<Tile>;
  const attention_place<Tile> at;
  const attention_heads& heads = from.heads;
  const auto window = static_cast<unsigned>(heads.a.window);
  const unsigned first = blockIdx.y * Tile::rows;
  load_vectors<Tile, Tile::rows>(keys, heads.vectors_of_qkv(from.qkv, 1), first);
  load_vectors<Tile, Tile::rows>(values, heads.vectors_of_qkv(from.qkv, 2), first);
  attention_rows<Tile> of_keys{}, of_values{};
  static_assert(Tile::rows % Tile::columns == 0, "the first queries that see a key begin a tile");
  const auto load = [&](typename Tile::number* to, unsigned query) {
    load_vectors<Tile, Tile::columns>(to, heads.vectors_of_qkv(from.qkv, 0), query);
    load_vectors<Tile, Tile::columns>(to + Tile::vectors_of_columns, heads.vectors_of_y(from.dy), query);
    if (threadIdx.x >= Tile::columns) return;
    auto* const log_sums = reinterpret_cast<float*>(to + 2 * Tile::vectors_of_columns);
    const unsigned position = query + threadIdx.x;
    const bool there = position < window;
    const std::size_t found = heads.in_positions() + (there ? position : 0);
    load_number<Tile>(log_sums + threadIdx.x, from.log_sums + found, there);
    load_number<Tile>(log_sums + Tile::columns + threadIdx.x, from.projections + found, there);
  };
  tiles_in_turn<Tile, decltype(load)> tiles(columns, column_numbers<Tile>, first, window, load);
  for (unsigned query = first; query < window; query += Tile::columns) {
    const auto* const queries = tiles.at(query);
    const auto* const dys = queries + Tile::vectors_of_columns;
    const auto* const log_sums = reinterpret_cast<const float*>(dys + Tile::vectors_of_columns);
    const float* const projections = log_sums + Tile::columns;
    if (query + Tile::columns <= first + at.warp_row)
      continue; // no key of this warp is seen by these queries
    attention_pairs<Tile> weights, gradient;
    weights.multiply(keys, queries, at);
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j) {
        const bool hidden = query + at.column(j) < first + at.row(i);
        const float p = from.probability(weights.v[i][j], log_sums[at.column(j)]);
        weights.v[i][j] = hidden ? 0 : p; // what is behind the window meets a dY of zeros
      }
    of_values.add(weights, dys, workspace, at);
    gradient.multiply(values, dys, at);
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns; ++j)
        gradient.v[i][j] = weights.v[i][j] * (gradient.v[i][j] - projections[at.column(j)]) * from.scale;
    of_keys.add(gradient, queries, workspace, at);
  }
  of_keys.store(dqkv + heads.in_qkv(1), heads.layout_of_qkv(), first, at);
  of_values.store(dqkv + heads.in_qkv(2), heads.layout_of_qkv(), first, at);
}

void compute_projections(const cuda_stream& s, const attention_shape& a, const float* y, const float* dy,
                         float* projections) {
  const row_lanes n = lanes_of(a.batch * a.window * a.heads, a.head_width);
  const auto with = [&]<unsigned count, unsigned size>() {
    launch(s, "causal_attention_gradient", blocks_of(n), threads_per_block, 0, projection_kernel<count, size>,
           a, y, dy, projections, n);
  };
  if (are_packed_rows(a.head_width, y, dy)) return with.template operator()<4, float_pack::size>();
  with.template operator()<4, 1>();
}

template <class Y>
void compute_projections(const cuda_stream& s, const attention_shape& a, const Y* y, const bfloat16* dy,
                         float* projections) {
  const row_lanes n = lanes_of(a.batch * a.window * a.heads, a.head_width);
  launch(s, "causal_attention_gradient", blocks_of(n), threads_per_block, 0, rounded_projection_kernel<Y>, a,
         y, dy, projections, n);
}

/// The tile for the queries' gradient has room for more columns than that for keys and values, which adds up
/// two results.
template <class QueryTile, class KeyTile, class DQkv, class T = typename QueryTile::number>
void run(const cuda_stream& s, const attention_shape& a, const T* qkv, const float* log_sums, const T* dy,
         const float* projections, DQkv* dqkv) {
  const attention_operands<T> from{
      heads_of<QueryTile>(a, qkv, dy, dqkv), qkv, dy, log_sums, projections, attention_scale(a)};
  constexpr unsigned for_queries = 2 * QueryTile::vectors_of_rows +
                                   QueryTile::tiles * 2 * QueryTile::vectors_of_columns + QueryTile::weights;
  launch(s, "causal_attention_gradient", attention_grid<QueryTile>(a), QueryTile::threads,
         for_queries * sizeof(T), query_gradient_kernel<QueryTile, DQkv>, from, dqkv);
  constexpr unsigned for_keys =
      2 * KeyTile::vectors_of_rows + KeyTile::tiles * column_numbers<KeyTile> + KeyTile::weights;
  launch(s, "causal_attention_gradient", attention_grid<KeyTile>(a), KeyTile::threads, for_keys * sizeof(T),
         key_gradient_kernel<KeyTile, DQkv>, from, dqkv);
}

void differentiate(const cuda_stream& s, const attention_shape& a, const float* qkv, const float* y,
                   const float* log_sums, const float* dy, float* dqkv, float* projections) {
  compute_projections(s, a, y, dy, projections);
  const auto with = [&]<class Tile>(Tile) { run<Tile, Tile>(s, a, qkv, log_sums, dy, projections, dqkv); };
  if (a.head_width <= 32) return with(attention_tile<32, 4, 4, 8>{});
  if (a.head_width <= 64) return with(attention_tile<64, 4, 4, 8>{});
  if (a.head_width <= 96) return with(attention_tile<96, 4, 4, 4>{});
  with(attention_tile<128, 2, 4, 4>{});
}

void differentiate(const cuda_stream& s, const attention_shape& a, const bfloat16* qkv, read_numbers y,
                   const float* log_sums, const bfloat16* dy, written_numbers dqkv, float* projections) {
  std::visit([&](const auto* of) { compute_projections(s, a, of, dy, projections); }, y);
  std::visit(
      [&](auto* to) {
        if (a.head_width <= 64)
          run<attention_matrices<64, 4, 2, 32>, attention_matrices<64, 4, 2, 32>>(s, a, qkv, log_sums, dy,
                                                                                  projections, to);
        else
          run<attention_matrices<128, 4, 1, 32>, attention_matrices<128, 4, 1, 32>>(s, a, qkv, log_sums, dy,
                                                                                    projections, to);
      },
      dqkv);
}

void causal_attention(const cuda_stream& s, const attention_shape& a, read_numbers qkv, written_numbers y,
                      float* log_sums, void*) {
  if (a.batch * a.window * a.width() == 0) return;
  if (const auto* rounded = std::get_if<const bfloat16*>(&qkv)) return attend(s, a, *rounded, y, log_sums);
  attend(s, a, std::get<const float*>(qkv), std::get<float*>(y), log_sums);
}

void causal_attention_gradient(const cuda_stream& s, const attention_shape& a, read_numbers qkv,
                               read_numbers y, const float* log_sums, read_numbers dy, written_numbers dqkv,
                               void* scratch) {
  if (a.batch * a.window * a.width() == 0) return;
  auto* const projections = static_cast<float*>(scratch);
  if (const auto* rounded = std::get_if<const bfloat16*>(&qkv))
    return differentiate(s, a, *rounded, y, log_sums, std::get<const bfloat16*>(dy), dqkv, projections);
  differentiate(s, a, std::get<const float*>(qkv), std::get<const float*>(y), log_sums,
                std::get<const float*>(dy), std::get<float*>(dqkv), projections);
}

} // namespace

MAILGRAD_GPU_BODY(causal_attention)
MAILGRAD_GPU_BODY(causal_attention_gradient)

} // namespace mailgrad::cuda
