#include <mailgrad/kernels/attention.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/gemm_tile.hpp>
#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace mailgrad {
namespace {

std::size_t whole_tiles(std::size_t columns) {
  return (columns + tile::columns - 1) / tile::columns * tile::columns;
}

/// Queries, keys or values of one head: a row for each position. The rows lie `step` floats apart.
struct head_rows {
  const float* values;
  std::size_t step;
  const float* row(std::size_t i) const { return values + i * step; }
};

/// The right operand of a product, in panels as wide as a register tile. The last panel is filled up with
/// zeros.
struct panels {
  float* values;
  std::size_t depth;
  static std::size_t floats(std::size_t depth, std::size_t columns) { return depth * whole_tiles(columns); }

  /// Packs the rows as they are: B has `depth` positions, each with `columns` numbers.
  void pack(const head_rows& rows, std::size_t columns) const {
    for (std::size_t first = 0; first < columns; first += tile::columns) {
      const std::size_t count = std::min(tile::columns, columns - first);
      float* to = values + first * depth;
      if (count == tile::columns) {
        for (std::size_t p = 0; p < depth; ++p, to += tile::columns)
          for (std::size_t i = 0; i < tile::columns; i += simd::width)
            simd::store(to + i, simd::load(rows.row(p) + first + i));
        continue;
      }
      for (std::size_t p = 0; p < depth; ++p, to += tile::columns) {
        std::copy_n(rows.row(p) + first, count, to);
        std::fill_n(to + count, tile::columns - count, 0.0F);
      }
    }
  }

  /// Packs the rows transposed: B has `depth` numbers of each of `columns` positions.
  void pack_transposed(const head_rows& rows, std::size_t columns) const {
    for (std::size_t first = 0; first < columns; first += tile::columns) {
      const std::size_t count = std::min(tile::columns, columns - first);
      float* const to = values + first * depth;
      if (count < tile::columns) std::fill_n(to, depth * tile::columns, 0.0F);
      transpose(rows.row(first), rows.step, to, tile::columns, count, depth);
    }
  }
};

/// C = A B for the first `columns` columns. `depth` is the range of rows of B; A begins at the first of them.
void multiply(const tile::left_part& a, const panels& b, tile::range depth, float* c, std::size_t c_step,
              std::size_t rows, std::size_t columns, float* spare) {
  for (std::size_t first = 0; first < columns; first += tile::columns)
    tile::multiply_part(
        a, tile::right_part{b.values + first * b.depth + depth.first * tile::columns, tile::columns},
        depth.size(), {c + first, c_step, rows, std::min(tile::columns, columns - first)},
        tile::into::overwrite, spare);
}

/// Turns a row of `columns` scores into the softmax of scale * scores[0 .. last], followed by zeros. Scores
/// up to `computed` are exponentiated, too, since whole vectors cost nothing extra.
void masked_softmax(float* scores, float scale, std::size_t last, std::size_t computed, std::size_t columns) {
  std::fill(scores + last + 1, scores + computed, -std::numeric_limits<float>::infinity());
  shift_row(scores, scores, computed, scale);
  exponentiate(scores, computed);
  normalise_row(scores, computed);
  std::fill(scores + computed, scores + columns, 0.0F);
}

/// Calls visit(sample * heads + head, offset of the head's first number in qkv, the same in y).
template <class Visit>
void for_each_head(const attention_shape& a, Visit visit) {
  for (std::size_t sample = 0; sample < a.batch; ++sample)
    for (std::size_t head = 0; head < a.heads; ++head) {
      const std::size_t row = sample * a.window, number = head * a.head_width;
      visit(sample * a.heads + head, row * 3 * a.width() + number, row * a.width() + number);
    }
}

/// Rounds `last` up to whole tiles, since computing the rest of a tile costs nothing, but at most to the
/// window.
std::size_t in_whole_tiles(const attention_shape& a, std::size_t last) {
  return std::min(whole_tiles(last), a.window);
}

float scale_of(const attention_shape& a) { return 1 / std::sqrt(static_cast<float>(a.head_width)); }

class forward_pass {
public:
  forward_pass(const attention_shape& a, float* scratch)
      : a_(a), keys_{scratch, a.head_width}, values_{keys_.values + panels::floats(a.head_width, a.window),
                                                     a.window},
        spare_(values_.values + panels::floats(a.window, a.head_width)) {}

  static std::size_t scratch_floats(const attention_shape& a) {
    return panels::floats(a.head_width, a.window) + panels::floats(a.window, a.head_width) +
           tile::rows * tile::columns;
  }

  /// Computes one head. `qkv` points to its queries.
  void run(const float* qkv, float* y, float* probabilities) const {
    const std::size_t step = 3 * a_.width();
    keys_.pack_transposed({qkv + a_.width(), step}, a_.window);
    values_.pack({qkv + 2 * a_.width(), step}, a_.head_width);
    tile::for_each_height(0, a_.window, [&](std::size_t first, std::size_t last) {
      float* const p = probabilities + first * a_.window;
      const std::size_t computed = in_whole_tiles(a_, last);
      multiply({qkv + first * step, step, 1}, keys_, {0, a_.head_width}, p, a_.window, last - first, computed,
               spare_);
      for (std::size_t i = first; i < last; ++i)
        masked_softmax(probabilities + i * a_.window, scale_of(a_), i, computed, a_.window);
      multiply({p, a_.window, 1}, values_, {0, last}, y + first * a_.width(), a_.width(), last - first,
               a_.head_width, spare_);
    });
  }

private:
  attention_shape a_;
  panels keys_, values_;
  float* spare_;
};

/// Source  Vaswani's equation 1, differentiated: dV = P^T dY, dP = dY V^T, dS = P (dP - sum of dP P along a
///         row), dQ = dS K / sqrt(d), dK = dS^T Q / sqrt(d).
class backward_pass {
public:
  backward_pass(const attention_shape& a, float* scratch)
      : a_(a), dscores_(scratch), values_{dscores_ + a.window * a.window, a.head_width},
        keys_{values_.values + panels::floats(a.head_width, a.window), a.window},
        queries_{keys_.values + panels::floats(a.window, a.head_width), a.window},
        dy_{queries_.values + panels::floats(a.window, a.head_width), a.window},
        spare_(dy_.values + panels::floats(a.window, a.head_width)) {}

  static std::size_t scratch_floats(const attention_shape& a) {
    return a.window * a.window + panels::floats(a.head_width, a.window) +
           3 * panels::floats(a.window, a.head_width) + tile::rows * tile::columns;
  }

  /// Computes one head. `qkv` and `dqkv` point to its queries.
  void run(const float* qkv, const float* probabilities, const float* dy, float* dqkv) const {
    const std::size_t step = 3 * a_.width();
    queries_.pack({qkv, step}, a_.head_width);
    keys_.pack({qkv + a_.width(), step}, a_.head_width);
    values_.pack_transposed({qkv + 2 * a_.width(), step}, a_.window);
    dy_.pack({dy, a_.width()}, a_.head_width);
    tile::for_each_height(0, a_.window, [&](std::size_t first, std::size_t last) {
      float* const ds = dscores_ + first * a_.window;
      const std::size_t computed = in_whole_tiles(a_, last);
      multiply({dy + first * a_.width(), a_.width(), 1}, values_, {0, a_.head_width}, ds, a_.window,
               last - first, computed, spare_);
      for (std::size_t i = first; i < last; ++i)
        softmax_gradient(probabilities + i * a_.window, dscores_ + i * a_.window, computed);
      multiply({ds, a_.window, 1}, keys_, {0, last}, dqkv + first * step, step, last - first, a_.head_width,
               spare_);
    });
    // This loop has the same heights, because each row of ds was computed only up to the end of its height.
    tile::for_each_height(0, a_.window, [&](std::size_t first, std::size_t last) {
      const std::size_t diagonal = first * a_.window + first;
      float* const dk = dqkv + a_.width() + first * step;
      multiply({dscores_ + diagonal, 1, a_.window}, queries_, {first, a_.window}, dk, step, last - first,
               a_.head_width, spare_);
      multiply({probabilities + diagonal, 1, a_.window}, dy_, {first, a_.window}, dk + a_.width(), step,
               last - first, a_.head_width, spare_);
    });
  }

private:
  /// Turns dP into dS / sqrt(d). Above the diagonal P is 0, and so is dS.
  void softmax_gradient(const float* p, float* dp, std::size_t n) const {
    const float projection = row_sum(n, [=](std::size_t j) { return p[j] * dp[j]; });
    const float scale = scale_of(a_);
#pragma omp simd
    for (std::size_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - projection) * scale;
  }

  attention_shape a_;
  float* dscores_;
  panels values_, keys_, queries_, dy_;
  float* spare_;
};

void require_head_of_gpu(const attention_shape& a) {
  if (a.head_width > widest_head_of_gpu)
    throw shape_error(fmt::format("heads of {} numbers; a GPU computes those of at most {}", a.head_width,
                                  widest_head_of_gpu));
}

void require_head(const stream& s, const attention_shape& a) {
  if (std::holds_alternative<cuda_stream>(s)) require_head_of_gpu(a);
}

} // namespace

attention_workspace attention_workspace_on(device_kind where, const attention_shape& a) {
  const std::size_t rows = a.batch * a.heads * a.window;
  if (where == device_kind::cpu)
    return {rows * a.window, forward_pass::scratch_floats(a) * sizeof(float),
            backward_pass::scratch_floats(a) * sizeof(float)};
  require_head_of_gpu(a);
  return {rows, 0, rows * sizeof(float)};
}

void causal_attention(const stream& s, const attention_shape& a, read_numbers qkv, written_numbers y,
                      float* kept, void* scratch) {
  require_head(s, a);
  if (on_gpu<causal_attention>(s, a, qkv, y, kept, scratch)) return;
  const float* const from = floats_of(qkv, "causal_attention");
  float* const to = floats_of(y, "causal_attention");
  const forward_pass pass(a, static_cast<float*>(scratch));
  for_each_head(a, [&](std::size_t head, std::size_t in, std::size_t out) {
    pass.run(from + in, to + out, kept + head * a.window * a.window);
  });
}

void causal_attention_gradient(const stream& s, const attention_shape& a, read_numbers qkv, read_numbers y,
                               const float* kept, read_numbers dy, written_numbers dqkv, void* scratch) {
  require_head(s, a);
  if (on_gpu<causal_attention_gradient>(s, a, qkv, y, kept, dy, dqkv, scratch)) return;
  const float* const from = floats_of(qkv, "causal_attention_gradient");
  const float* const of_y = floats_of(dy, "causal_attention_gradient");
  float* const to = floats_of(dqkv, "causal_attention_gradient");
  const backward_pass pass(a, static_cast<float*>(scratch));
  for_each_head(a, [&](std::size_t head, std::size_t in, std::size_t out) {
    pass.run(from + in, kept + head * a.window * a.window, of_y + out, to + in);
  });
}

} // namespace mailgrad
