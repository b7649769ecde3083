#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>

#include <bit>
#include <utility>

namespace mailgrad {

namespace {

/// Small eigenvalues grow by (1 + 1/p)^p a step, 2.25 at least, so those of 1e-6 need 18 steps, and a few
/// more to converge.
constexpr int most_steps = 40;

/// The largest distance of an element from those of I. NaN if one is.
double distance_from_identity(std::size_t n, std::span<const float> m) {
  float most = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const float d = std::abs(m[i * n + j] - (i == j ? 1.0F : 0.0F));
      if (!(d <= most)) most = d;
    }
  return static_cast<double>(most);
}

void add_to_diagonal(std::size_t n, float x, std::span<float> m) {
  for (std::size_t i = 0; i < n; ++i) m[i * n + i] += x;
}

/// The matrix of one side of a gradient G of a matrix: L and its root on the left, R and its root on the
/// right.
struct matrix_side {
  bool is_left;
  std::size_t n;      ///< rows and columns of the matrix
  gemm_shape square;  ///< G G^T on the left, G^T G on the right
  gemm_shape product; ///< of the root and G, or of G and the root
};

std::array<matrix_side, 2> sides_of(const matrix_dims& d) {
  using enum operand_order;
  return {{{true, d.rows, {d.rows, d.rows, d.columns, as_is, transposed}, {d.rows, d.columns, d.rows}},
           {false,
            d.columns,
            {d.columns, d.columns, d.rows, transposed, as_is},
            {d.rows, d.columns, d.columns}}}};
}

/// Shampoo: AdaGrad whose square of the past is a matrix for each side of a matrix.
///
///     L = L + G G^T,   R = R + G^T G,   from epsilon I
///     w = w - rate L^(-1/4) G R^(-1/4)
///
/// A side longer than `largest` has no matrix; the exponent of the other is then -1/2. Scalars, vectors,
/// matrices without a side, and tables whose gradients come as rows take AdaGrad. The roots are computed at
/// updates 1, 2, 4, ... and at each multiple of `every`, because they cost far more than the rest.
///
/// We took Shampoo and not SOAP (Vyas et al., 2024), which rotates Adam by the eigenvectors of L and R: it
/// needs eigenvectors and factors Q R, where Shampoo's roots are products alone, which Mailgrad has fast on
/// one thread and the same to the bit; and two more floats for a weight.
/// Source  Gupta, Koren & Singer, "Shampoo: preconditioned stochastic tensor optimization", ICML 2018,
///         arXiv:1802.09568, Algorithm 1. Differs: the roots, by inverse_root(), are not of each update.
/// Shapes  state "sum_of_squares": float32[shard], for AdaGrad. States "left", "right" and their roots: the
///         matrices of all variables, one after the other.
class shampoo_rule final : public variable_rule {
public:
  shampoo_rule(const shampoo_options& options, std::size_t shard_size,
               std::span<const shard_variable> variables)
      : options_(options), sum_of_squares_(shard_size * sizeof(float)) {
    for (const shard_variable& v : variables) {
      place at{v.offset, sides_of(as_matrix(v.dims))};
      for (std::size_t i = 0; i < at.sides.size(); ++i)
        if (v.dims.rank() >= 2 && !v.in_rows && at.sides[i].n <= options_.largest)
          at.begins[i] = reserve(at.sides[i], kept_[i], v.dims.size());
      places_.push_back(at);
    }
    for (kept& k : kept_) {
      k.sums = block(k.floats * sizeof(float));
      k.roots = block(k.floats * sizeof(float));
    }
    for (const place& at : places_)
      for_each_side(at, [&](const matrix_side& side, kept& k, std::size_t begin) {
        for (std::size_t i = 0; i < side.n; ++i)
          k.sums.as<float>()[begin + i * (side.n + 1)] = static_cast<float>(options_.epsilon);
      });
  }

  void update(const variable_step& work) override {
    const place& at = places_[work.variable];
    if (!at.begins[0] && !at.begins[1]) return update_by_adagrad(work, at);
    add_square(work, at);
    const bool due =
        work.step % options_.every == 0 || (work.step < options_.every && std::has_single_bit(work.step));
    if (due || !has_roots(at)) find_roots(at);
    scale_in_place(host_stream{}, static_cast<float>(1 - work.rate * work.decay), work.weights);
    add_to_sum(host_stream{}, static_cast<float>(-work.rate), preconditioned(work, at), work.weights);
  }
  void update_rows(const rows_step& work) override {
    const weight_penalty penalty{static_cast<float>(work.l2), static_cast<float>(work.rate * work.decay)};
    const std::array states{sum_of_squares_.as<float>().data() + work.first};
    mailgrad::update_rows(host_stream{}, adagrad(work.rate), penalty, work.rows, states);
  }
  std::vector<optimizer_state> state() override {
    return {{"sum_of_squares", sum_of_squares_.as<float>()},
            {"left", kept_[0].sums.as<float>()},
            {"left root", kept_[0].roots.as<float>()},
            {"right", kept_[1].sums.as<float>()},
            {"right root", kept_[1].roots.as<float>()}};
  }

private:
  struct place {
    std::size_t offset;
    std::array<matrix_side, 2> sides;
    std::array<std::optional<std::size_t>, 2> begins{}; ///< of the matrix of a side, if it has one
  };

  /// What is kept of one side of all variables.
  struct kept {
    std::size_t floats = 0;
    block sums, roots;
    block product; ///< with the root, of the largest variable
  };

  std::size_t reserve(const matrix_side& side, kept& k, std::size_t weights) {
    products_.expect(side.square);
    products_.expect(side.product);
    root_.expect(side.n);
    grow(square_, side.n * side.n);
    grow(k.product, weights);
    return std::exchange(k.floats, k.floats + side.n * side.n);
  }

  /// Calls `f(side, what is kept of it, where its matrix begins)` for the sides that have one, left first.
  template <class F>
  void for_each_side(const place& at, F f) {
    for (std::size_t i = 0; i < at.sides.size(); ++i)
      if (at.begins[i]) f(at.sides[i], kept_[i], *at.begins[i]);
  }

  void add_square(const variable_step& work, const place& at) {
    const float* const g = work.gradient.data();
    for_each_side(at, [&](const matrix_side& side, kept& k, std::size_t begin) {
      const std::span<float> product = square_.as<float>().first(side.n * side.n);
      products_.multiply(side.square, g, g, product.data());
      add_to_sum(host_stream{}, 1, product, k.sums.as<float>().subspan(begin, product.size()));
    });
  }

  /// A root that the iteration does not find stays as it was, as Anil et al. do.
  void find_roots(const place& at) {
    const unsigned p = at.begins[0] && at.begins[1] ? 4 : 2;
    for_each_side(at, [&](const matrix_side& side, kept& k, std::size_t begin) {
      root_.compute(side.n, p, k.sums.as<float>().subspan(begin, side.n * side.n),
                    k.roots.as<float>().subspan(begin, side.n * side.n));
    });
  }

  std::span<const float> preconditioned(const variable_step& work, const place& at) {
    std::span<const float> result = work.gradient;
    for_each_side(at, [&](const matrix_side& side, kept& k, std::size_t begin) {
      const std::span<float> product = k.product.as<float>().first(result.size());
      const float* const root = k.roots.as<float>().data() + begin;
      products_.multiply(side.product, side.is_left ? root : result.data(),
                         side.is_left ? result.data() : root, product.data());
      result = product;
    });
    return result;
  }

  adagrad_update adagrad(double rate) const {
    return {static_cast<float>(rate), static_cast<float>(options_.epsilon)};
  }

  void update_by_adagrad(const variable_step& work, const place& at) {
    const scaled_gradient gradient{work.gradient.data(), 1};
    const weight_penalty penalty{0, static_cast<float>(work.rate * work.decay)};
    const std::array states{sum_of_squares_.as<float>().data() + at.offset};
    mailgrad::update(host_stream{}, adagrad(work.rate), penalty, {work.weights, work.weights, {&gradient, 1}},
                     states);
  }

  /// A variable may get its first gradient at any step of the shard. A root has no zero on its diagonal.
  bool has_roots(const place& at) {
    bool all = true;
    for_each_side(at, [&](const matrix_side&, kept& k, std::size_t begin) {
      all = all && k.roots.as<float>()[begin] != 0;
    });
    return all;
  }

  shampoo_options options_;
  std::vector<place> places_; ///< by variable
  std::array<kept, 2> kept_;  ///< by side, left first
  block sum_of_squares_;
  matrix_products products_;
  inverse_root root_;
  block square_; ///< G G^T or G^T G of the largest side
};

} // namespace

void inverse_root::expect(std::size_t n) {
  products_.expect({n, n, n});
  for (block* b : {&from_, &root_, &factor_, &power_, &spare_}) grow(*b, n * n);
}

void inverse_root::begin(std::size_t n, unsigned p, std::span<const float> a) {
  const std::span<float> m = from_.as<float>().first(n * n);
  std::ranges::copy(a, m.begin());
  add_to_diagonal(n, static_cast<float>(1e-6 * std::sqrt(sum_of_squares(host_stream{}, a))), m);
  const double z = (1.0 + p) / (2 * std::sqrt(sum_of_squares(host_stream{}, m)));
  scale_in_place(host_stream{}, static_cast<float>(z), m);
  const std::span<float> h = root_.as<float>().first(n * n);
  std::ranges::fill(h, 0.0F);
  add_to_diagonal(n, static_cast<float>(std::pow(z, 1.0 / p)), h);
}

/// One step of the iteration. Returns how far M is from I after it.
double inverse_root::iterate(std::size_t n, unsigned p) {
  const auto floats = [n](block& b) { return b.as<float>().first(n * n); };
  const std::span<float> t = floats(factor_);
  begin_sum(host_stream{}, -1.0F / static_cast<float>(p), floats(from_), t);
  add_to_diagonal(n, 1 + 1 / static_cast<float>(p), t);
  products_.multiply_square(n, floats(root_).data(), t.data(), floats(spare_).data());
  std::swap(root_, spare_);
  products_.multiply_square(n, t.data(), t.data(), floats(power_).data());
  if (p == 4) {
    products_.multiply_square(n, floats(power_).data(), floats(power_).data(), floats(spare_).data());
    std::swap(power_, spare_);
  }
  products_.multiply_square(n, floats(power_).data(), floats(from_).data(), floats(spare_).data());
  std::swap(from_, spare_);
  return distance_from_identity(n, floats(from_));
}

/// Near I the distance is squared at each step, so one that no longer halves is rounding alone.
bool inverse_root::compute(std::size_t n, unsigned p, std::span<const float> a, std::span<float> root) {
  constexpr double near = 0.05;
  begin(n, p, a);
  double before = distance_from_identity(n, from_.as<float>().first(n * n));
  for (int i = 0; i < most_steps; ++i) {
    const double distance = iterate(n, p);
    if (!std::isfinite(distance)) return false;
    if (distance < 1e-6 || (distance < near && distance > before / 2)) {
      std::ranges::copy(root_.as<float>().first(n * n), root.begin());
      return true;
    }
    before = distance;
  }
  return false;
}

std::size_t floats_of_matrices(const shampoo_options& options, const shape& dims) {
  if (dims.rank() < 2) return 0;
  const matrix_dims m = as_matrix(dims);
  std::size_t floats = 0;
  for (const std::size_t n : {m.rows, m.columns})
    if (n <= options.largest) floats += 2 * n * n; // a sum and its root
  return floats;
}

std::unique_ptr<variable_rule> make_rule(const shampoo_options& options, std::size_t shard_size,
                                         std::span<const shard_variable> variables) {
  return std::make_unique<shampoo_rule>(options, shard_size, variables);
}

} // namespace mailgrad
