#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>

#include <ranges>
#include <tuple>

namespace mailgrad {

namespace {

gradient_rows listed(const stage_rows& list) {
  return listed_rows({list.variable, list.width, list.rows, list.values});
}

gradient_rows copied(std::span<const stage_rows> lists, row_memory& memory) {
  const std::size_t width = lists.front().width;
  std::size_t count = 0;
  for (const stage_rows& list : lists) count += listed(list).rows.size();
  const std::span rows(reinterpret_cast<std::int32_t*>(memory.take(count * sizeof(std::int32_t))), count);
  const std::span values(reinterpret_cast<float*>(memory.take(count * width * sizeof(float))), count * width);
  std::size_t first = 0;
  for (const stage_rows& list : lists) {
    const gradient_rows used = listed(list);
    std::ranges::copy(used.rows, rows.begin() + static_cast<std::ptrdiff_t>(first));
    std::ranges::copy(used.values, values.begin() + static_cast<std::ptrdiff_t>(first * width));
    first += used.rows.size();
  }
  return {lists.front().variable, width, rows, values};
}

device_queue& queue_of_stages_on_host() {
  static host_queue host; // it has no state
  return host;
}

/// Everything where the host has it.
class place_on_host final : public stage_place {
public:
  explicit place_on_host(const weight_addresses& weights) : weights_(weights) {}

  const void* part_of(const micro_batch&, const tensor& part) override { return part.data(); }
  const float* weights_of(std::size_t variable) const override { return weights_.of(variable); }
  float* dense_of(const stage_sum& sum) override { return sum.into->dense.on_host<float>().data(); }
  std::byte* room_for_rows(std::size_t bytes, stage_sum& sum) override { return sum.memory->take(bytes); }
  std::span<const std::int32_t> rows_of(const micro_batch&, const tensor& part, stage_sum&) override {
    return part.values<std::int32_t>();
  }

private:
  const weight_addresses& weights_;
};

} // namespace

std::byte* row_memory::take(std::size_t bytes, device_queue& at) {
  if (used == blocks.size()) blocks.emplace_back();
  memory& m = blocks[used++];
  if (m.bytes() < std::max<std::size_t>(bytes, 1)) { // a list of no rows also has an address
    memory larger = at.allocate(std::max<std::size_t>(bytes, 1));
    std::swap(m, larger);
    if (is_on_gpu(at) && larger.bytes() > 0) outgrown.push_back(std::move(larger));
  }
  return m.on<std::byte>(at.where()).data();
}

void sort_lists(std::vector<stage_rows>& lists) {
  std::ranges::sort(lists, {},
                    [](const stage_rows& l) { return std::tuple(l.variable, l.micro_batch, l.segment); });
}

std::vector<gradient_rows> joined(std::vector<stage_rows> lists, row_memory& memory) {
  memory.used = 0;
  sort_lists(lists);
  std::vector<gradient_rows> all;
  for (auto begin = lists.begin(); begin != lists.end();) {
    const auto end =
        std::find_if(begin, lists.end(), [&](const stage_rows& l) { return l.variable != begin->variable; });
    if (end - begin == 1)
      all.push_back({begin->variable, begin->width, begin->rows, begin->values});
    else
      all.push_back(copied({begin, end}, memory));
    begin = end;
  }
  return all;
}

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
    memory own;        ///< the gradient of one micro-batch, before it is added to the sum
  };
  struct sparse_part {
    sparse_fetch what;
    std::size_t values;
    std::optional<std::size_t> rows;
  };

  std::size_t number; ///< of the segment
  program code;
  bound_sources sources;
  weight_reads reads;
  std::vector<import> imports;
  std::vector<dense_part> dense;
  std::vector<sparse_part> sparse;
  std::optional<std::size_t> loss;

  compiled_part(std::size_t place, const graph& g, const parameter_layout& layout,
                const model_request& request, const segment& s, std::span<const value> fetches,
                device_queue& at)
      : number(place), code(g, fetches, s.imports, at, s.exports.size()), sources(g, code, layout, request),
        reads(g, code, sources, layout) {}

  void bind_sources(const micro_batch& m, stage_place& with) {
    for (const auto& input : sources.inputs()) {
      input.in(*m.samples); // refuses a batch of another shape
      code.bind(input.what, with.part_of(m, input.part.of(*m.samples)));
    }
    for (const auto& v : sources.variables()) code.bind(v.what, with.weights_of(v.index));
    with.bring_rows(m, reads);
  }

  void bind(const micro_batch& m, stage_place& with, device_queue& at, std::span<const value_set* const> read,
            value_set& made, stage_sum& sum) {
    const stream& s = at.where();
    bind_sources(m, with);
    for (const import& i : imports)
      code.bind(i.what, values_for(s, *read[i.from])[i.position].on<std::byte>(s).data());
    for (std::size_t e = 0; e < made.values.size(); ++e)
      code.bind_fetch(e, made.values[e].on<std::byte>(s).data());
    for (dense_part& d : dense) {
      if (!m.only && d.own.bytes() == 0)
        d.own = naming_memory("the gradient of a micro-batch",
                              [&] { return at.allocate(d.what.size * sizeof(float)); });
      if (m.only)
        code.bind_fetch(d.fetch, whole(d, with, sum).data(), next_use::later);
      else
        code.bind_fetch(d.fetch, d.own.on<float>(s).data());
    }
    for (const sparse_part& p : sparse) bind_rows(p, m, with, sum);
  }

  /// What a GPU has made has also come to the host, if a core reads it.
  static const std::vector<memory>& values_for(const stream& s, const value_set& set) {
    const bool from_a_gpu = set.where.kind == device_kind::cuda && std::holds_alternative<host_stream>(s);
    return from_a_gpu ? set.on_host : set.values;
  }

  static std::span<float> whole(const dense_part& d, stage_place& with, const stage_sum& sum) {
    float* const into =
        d.what.further ? sum.into->addends[sum.own_addend].values.as<float>().data() : with.dense_of(sum);
    return {into + d.what.offset, d.what.size};
  }

  void bind_rows(const sparse_part& p, const micro_batch& m, stage_place& with, stage_sum& sum) {
    const std::size_t floats = p.what.count * p.what.width;
    auto* values = reinterpret_cast<float*>(with.room_for_rows(floats * sizeof(float), sum));
    code.bind_fetch(p.values, values);
    stage_rows list{p.what.variable, m.place, number, p.what.width, {}, {values, floats}, !p.rows};
    if (p.rows) {
      auto* rows =
          reinterpret_cast<std::int32_t*>(with.room_for_rows(p.what.count * sizeof(std::int32_t), sum));
      code.bind_fetch(*p.rows, rows);
      list.rows = {rows, p.what.count};
    } else {
      list.rows = with.rows_of(m, p.what.rows_in_batch->of(*m.samples), sum);
    }
    sum.rows.push_back(list);
  }

  /// Adds the results of the program to `sum`. A micro-batch counts in proportion to its samples.
  void add_to(stage_sum& sum, stage_place& with, const stream& s, const micro_batch& m) {
    if (loss && std::holds_alternative<host_stream>(s)) sum.loss += m.share * *loss_address();
    if (m.only) return;
    for (const dense_part& d : dense) {
      const auto part = d.own.on<float>(s).first(d.what.size);
      if (std::exchange(sum.begun[d.what.variable], char{1}))
        add_to_sum(s, m.share, part, whole(d, with, sum));
      else
        begin_sum(s, m.share, part, whole(d, with, sum));
    }
    for (std::size_t i = sum.rows.size() - sparse.size(); i < sum.rows.size(); ++i)
      scale_in_place(s, m.share, sum.rows[i].values);
  }

  const float* loss_address() const { return static_cast<const float*>(code.fetched(*loss)); }
};

stage_program::stage_program(const model_function& build, const model_request& request,
                             const parameter_layout& layout, device where, bool sums_apart)
    : stage_program(build, request, layout, where, queue_of_stages_on_host(), sums_apart) {}

stage_program::stage_program(const model_function& build, const model_request& request,
                             const parameter_layout& layout, device where, device_queue& at, bool sums_apart)
    : at_(&at), where_(where), graph_(std::make_unique<graph>()) {
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
  find_ranges(layout);
}

void stage_program::find_ranges(const parameter_layout& layout) {
  for (const auto& made : compiled_) {
    for (const compiled_part::dense_part& d : made->dense)
      delivered_ranges_.push_back({d.what.offset, d.what.offset + d.what.size});
    for (const auto& v : made->sources.variables()) {
      if (!made->code.needs(v.what)) continue;
      const placed_variable& placed = layout.variables()[v.index];
      auto& ranges = made->reads.by_rows(v.index) ? tables_read_ : weights_read_;
      ranges.push_back({placed.offset, placed.offset + placed.dims.size()});
    }
  }
  for (auto* const ranges : {&delivered_ranges_, &weights_read_, &tables_read_})
    *ranges = joined_ranges(std::move(*ranges));
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
  auto code = std::make_unique<compiled_part>(number, *graph_, layout, request, s, fetches, *at_);
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

std::shared_ptr<value_set> stage_program::make_values(std::size_t i) const {
  auto made = std::make_shared<value_set>();
  made->where = where_;
  for (std::size_t e = 0; e < segments_[parts_[i].number].exports.size(); ++e)
    made->values.push_back(naming_memory("values between the devices of a worker",
                                         [&] { return at_->allocate(compiled_[i]->code.fetch_bytes(e)); }));
  return made;
}

void stage_program::run(std::size_t i, const micro_batch& m, const weight_addresses& weights,
                        std::span<const value_set* const> read, value_set& made, stage_sum& sum) {
  place_on_host here(weights);
  run(i, m, here, read, made, sum);
}

void stage_program::run(std::size_t i, const micro_batch& m, stage_place& with,
                        std::span<const value_set* const> read, value_set& made, stage_sum& sum) {
  compiled_part& p = *compiled_[i];
  p.bind(m, with, *at_, read, made, sum);
  p.code.run(at_->where(), m.number, {});
  p.add_to(sum, with, at_->where(), m);
}

const float* stage_program::loss_of(std::size_t i) const {
  return compiled_[i]->loss ? compiled_[i]->loss_address() : nullptr;
}

void stage_program::raise(std::size_t i, const cuda::fault_word& fault) const {
  compiled_[i]->code.raise(fault);
}

stage_schedule::stage_schedule(std::vector<std::vector<part>> parts, std::size_t credits)
    : parts_(std::move(parts)), credits_(credits), arrived_(parts_.size()) {
  for (std::size_t m = 0; m < parts_.size(); ++m)
    for (std::size_t i = 0; i < parts_[m].size(); ++i) {
      lines_[parts_[m][i].number].turns.push_back({m, i});
      ++left_;
    }
}

std::optional<stage_schedule::turn> stage_schedule::first(bool with_credit) const {
  for (const line& l : lines_ | std::views::values) {
    if (l.ran == l.turns.size()) continue;
    const turn& t = l.turns[l.ran];
    if (has_values(t) && (!with_credit || has_credit(t))) return t;
  }
  return std::nullopt;
}

bool stage_schedule::has_values(const turn& t) const {
  return std::ranges::all_of(part_of(t).reads, [&](std::size_t segment) {
    return std::ranges::find(arrived_[t.micro_batch], segment) != arrived_[t.micro_batch].end();
  });
}

bool stage_schedule::has_credit(const turn& t) const {
  const part& p = part_of(t);
  return std::ranges::all_of(p.readers, [&](std::size_t reader) {
    const auto owed = owed_.find({p.number, reader});
    return owed == owed_.end() || owed->second < credits_;
  });
}

void stage_schedule::ran(const turn& t) {
  const part& p = part_of(t);
  ++lines_.at(p.number).ran;
  --left_;
  for (const std::size_t reader : p.readers) ++owed_[{p.number, reader}];
}

} // namespace mailgrad
