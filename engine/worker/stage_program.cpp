#include <mailgrad/engine/worker/stage_program.hpp>

#include <mailgrad/kernels/accumulate.hpp>
#include <mailgrad/kernels/next_use.hpp>

#include <algorithm>
#include <optional>

namespace mailgrad {

namespace {

std::size_t bytes_of(const value& v) { return v.dims().size() * byte_size(v.type().type); }

} // namespace

std::vector<wanted_value> wanted_values(const training_fetches& fetches) {
  std::vector<wanted_value> wanted;
  for (const value& v : fetches.fetches) wanted.push_back({v, {}});
  for (const sparse_fetch& f : fetches.sparse)
    if (f.rows) wanted[*f.rows].beside = fetches.fetches[f.values];
  return wanted;
}

/// A segment as a program. Its first fetches are the exports; the members say what the others are.
struct stage_program::compiled_part {
  struct import {
    value what;
    std::size_t from;     ///< place in part::reads
    std::size_t position; ///< in the exports of that segment
  };
  struct dense_part {
    dense_fetch what;
    std::size_t fetch; ///< index among the fetches of this program
    block own;         ///< the gradient of one micro-batch, before it is added to the sum
  };
  struct sparse_part {
    sparse_fetch what;
    std::size_t values;
    std::optional<std::size_t> rows;
  };

  std::size_t number; ///< of the segment
  program code;
  bound_sources sources;
  std::vector<import> imports;
  std::vector<dense_part> dense;
  std::vector<sparse_part> sparse;
  std::optional<std::size_t> loss;

  compiled_part(std::size_t place, const graph& g, const parameter_layout& layout,
                const model_request& request, const segment& s, std::span<const value> fetches)
      : number(place), code(g, fetches, s.imports), sources(g, code, layout, request) {}

  void bind(const micro_batch& m, std::span<const value_set* const> read, value_set& made, stage_sum& sum) {
    for (const import& i : imports) code.bind(i.what, read[i.from]->values[i.position].data());
    for (std::size_t e = 0; e < made.values.size(); ++e) code.bind_fetch(e, made.values[e].data());
    for (dense_part& d : dense) {
      if (!m.only && d.own.bytes() == 0) d.own = block(d.what.size * sizeof(float));
      if (m.only)
        code.bind_fetch(d.fetch, whole(d, sum).data(), next_use::later);
      else
        code.bind_fetch(d.fetch, d.own.as<float>().data());
    }
    for (const sparse_part& p : sparse) bind_rows(p, m, sum);
  }

  static std::span<float> whole(const dense_part& d, const stage_sum& sum) {
    const std::span<float> into = d.what.further ? sum.into->addends[sum.own_addend].values.as<float>()
                                                 : sum.into->dense.on_host<float>();
    return into.subspan(d.what.offset, d.what.size);
  }

  void bind_rows(const sparse_part& p, const micro_batch& m, stage_sum& sum) {
    auto* values = reinterpret_cast<float*>(sum.memory->take(p.what.count * p.what.width * sizeof(float)));
    code.bind_fetch(p.values, values);
    stage_rows list{p.what.variable, m.place, number,
                    p.what.width,    {},      {values, p.what.count * p.what.width}};
    if (p.rows) {
      auto* rows = reinterpret_cast<std::int32_t*>(sum.memory->take(p.what.count * sizeof(std::int32_t)));
      code.bind_fetch(*p.rows, rows);
      list.rows = {rows, p.what.count};
    } else {
      list.rows = p.what.rows_in_batch->of(*m.samples).values<std::int32_t>();
    }
    sum.rows.push_back(list);
  }

  /// Adds the results of the program to `sum`. A micro-batch counts in proportion to its samples.
  void add_to(stage_sum& sum, const stream& s, const micro_batch& m) {
    if (loss) sum.loss += m.share * *static_cast<const float*>(code.fetched(*loss));
    if (m.only) return;
    for (const dense_part& d : dense) {
      const auto part = d.own.as<float>().first(d.what.size);
      if (std::exchange(sum.begun[d.what.variable], char{1}))
        add_to_sum(s, m.share, part, whole(d, sum));
      else
        begin_sum(s, m.share, part, whole(d, sum));
    }
    for (std::size_t i = sum.rows.size() - sparse.size(); i < sum.rows.size(); ++i)
      scale_in_place(s, m.share, sum.rows[i].values);
  }
};

stage_program::stage_program(const model_function& build, const model_request& request,
                             const parameter_layout& layout, device where, bool sums_apart)
    : graph_(std::make_unique<graph>()) {
  const model_outputs outputs = build_fitting(build, *graph_, request);
  wanted_ = loss_and_gradients(*graph_, outputs, layout, request);
  covered_ = coverage_of(layout, wanted_.dense_variables());
  const placement places(*graph_, request.devices.front());
  if (sums_apart) take_sums_apart(wanted_, *graph_, places);
  const std::vector<wanted_value> wanted = wanted_values(wanted_);
  segments_ = cut_into_segments(*graph_, places, wanted);
  std::vector<std::size_t> further;
  for (std::size_t number = 0; number < segments_.size(); ++number) {
    if (segments_[number].where != where) continue;
    parts_.push_back(described(number));
    compiled_.push_back(compiled(number, layout, request));
    for (const compiled_part::dense_part& d : compiled_.back()->dense) {
      delivered_.push_back({d.what.variable, d.what.further});
      if (d.what.further) further.push_back(d.what.variable);
    }
  }
  std::ranges::sort(delivered_);
  added_ = coverage_of(layout, further);
}

stage_program::part stage_program::described(std::size_t number) const {
  const segment& s = segments_[number];
  part made{number, s.reads, {}};
  for (const segment& reader : segments_) {
    if (std::ranges::find(reader.reads, number) == reader.reads.end()) continue;
    if (reader.where != s.where && std::ranges::find(made.readers, reader.where) == made.readers.end())
      made.readers.push_back(reader.where);
  }
  return made;
}

std::unique_ptr<stage_program::compiled_part> stage_program::compiled(std::size_t number,
                                                                      const parameter_layout& layout,
                                                                      const model_request& request) const {
  const segment& s = segments_[number];
  std::vector<value> fetches = s.exports;
  for (const std::size_t i : s.fetches) fetches.push_back(wanted_.fetches[i]);
  auto code = std::make_unique<compiled_part>(number, *graph_, layout, request, s, fetches);
  for (const value& v : s.imports)
    for (std::size_t from = 0; from < s.reads.size(); ++from) {
      const auto& exports = segments_[s.reads[from]].exports;
      const auto at = std::ranges::find(exports, v);
      if (at != exports.end())
        code->imports.push_back({v, from, static_cast<std::size_t>(at - exports.begin())});
    }
  const auto fetch_of = [&](std::size_t i) -> std::optional<std::size_t> {
    const auto at = std::ranges::find(s.fetches, i);
    if (at == s.fetches.end()) return std::nullopt;
    return s.exports.size() + static_cast<std::size_t>(at - s.fetches.begin());
  };
  code->loss = fetch_of(training_fetches::loss);
  for (const dense_fetch& f : wanted_.dense)
    if (const auto at = fetch_of(f.index)) code->dense.push_back({f, *at, {}});
  for (const sparse_fetch& f : wanted_.sparse)
    if (const auto at = fetch_of(f.values))
      code->sparse.push_back({f, *at, f.rows ? fetch_of(*f.rows) : std::nullopt});
  return code;
}

stage_program::~stage_program() = default;

std::size_t stage_program::readers_of(std::size_t segment) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      parts_, [&](const part& p) { return std::ranges::find(p.reads, segment) != p.reads.end(); }));
}

std::shared_ptr<value_set> stage_program::make_values(std::size_t i) const {
  auto made = std::make_shared<value_set>();
  for (const value& v : segments_[parts_[i].number].exports) made->values.emplace_back(bytes_of(v));
  return made;
}

void stage_program::run(std::size_t i, const micro_batch& m, const weight_addresses& weights,
                        std::span<const value_set* const> read, value_set& made, stage_sum& sum) {
  compiled_part& p = *compiled_[i];
  p.sources.bind(p.code, *m.samples, weights);
  p.bind(m, read, made, sum);
  p.code.run(where_, m.number, {});
  p.add_to(sum, where_, m);
}

} // namespace mailgrad
