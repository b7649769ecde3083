#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/serialisable.hpp>

#include <bit>
#include <cstring>

namespace mailgrad::remote {

namespace {

constexpr wire_format exact{};

/// Whether the dense values alone are all that a shard needs.
bool is_plain(const push_gradient& x) {
  const gradient& g = *x.payload.values;
  return !g.covered && std::ranges::all_of(g.addends, adds_nothing) && g.sparse.empty() && !x.payload.read;
}

/// Writes what further devices add in `range`. Shards add all addends in one order, so a sum that was made
/// before would round differently.
void pack_addends(byte_archive_writer& a, const gradient& g, const shard_range& range) {
  auto count = static_cast<std::size_t>(
      std::ranges::count_if(g.addends, [](const dense_addend& x) { return !adds_nothing(x); }));
  a.field("addends", count);
  for (const dense_addend& further : g.addends) {
    if (adds_nothing(further)) continue;
    std::shared_ptr<const coverage> covered = further.covered;
    keep_ranges(a, "covered", covered);
    a.hold("dense", nullptr, further.values.as<float>().subspan(range.begin, range.size()));
  }
}

/// Memory of an earlier gradient is used again. Each of so many devices has an addend at most.
void unpack_addends(byte_archive_reader& a, gradient& into, const shard_range& range, std::uint32_t devices) {
  std::size_t count = 0;
  a.field("addends", count);
  if (count > devices)
    throw archive_error(fmt::format("gradient: expected at most {} addends, found {}", devices, count));
  into.addends.resize(count);
  for (dense_addend& further : into.addends) {
    keep_ranges(a, "covered", further.covered);
    if (further.values.bytes() == 0) further.values = block::for_overwrite(into.dense.bytes());
    a.floats("dense", further.values.as<float>().subspan(range.begin, range.size()));
  }
}

std::string text_of(const wire_message& m) {
  return std::string(reinterpret_cast<const char*>(m->data()), m->size());
}

/// Bytes of a peer that are no numbers make no message.
void decode(const wire_format& f, std::span<const std::byte> from, std::span<float> to) {
  try {
    decode_numbers(f, from, to);
  } catch (const wire_error& e) {
    throw archive_error(e.what());
  }
}

/// Weights and those that were met, one behind the other.
attached joined(const snapshot& values, const snapshot& met) {
  const auto both = std::make_shared<std::vector<float>>();
  for (const snapshot& part : {values, met})
    both->insert(both->end(), part.on_host().begin(), part.on_host().end());
  return {std::as_bytes(std::span(*both)), both};
}

bool is_block(net::byte_view bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % block::alignment == 0;
}

/// Nobody writes to a snapshot.
block block_of(const net::borrowed& lent) {
  return block::in_memory_of(lent.keeps, {const_cast<std::byte*>(lent.bytes.data()), lent.bytes.size()});
}

snapshot copy_of(std::span<const std::byte> bytes) {
  block copy = block::for_overwrite(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return snapshot(std::make_shared<memory>(std::move(copy)));
}

/// A tensor without its elements.
struct tensor_form {
  shape dims{0};
  dtype type = dtype::float32;

  std::size_t bytes() const { return dims.size() * byte_size(type); }
  void keep(archive& a) {
    a.field("shape", dims);
    a.choice("type", type, dtype::int32);
  }
};

/// All tensors of a batch, in a fixed order.
std::vector<const tensor*> tensors_of(const batch& b) {
  std::vector<const tensor*> all{&b.features, &b.columns, &b.values, &b.offsets, &b.categories, &b.labels};
  for (const tensor& input : b.inputs) all.push_back(&input);
  return all;
}
constexpr std::size_t named_tensors = 6;

/// What a batch is besides the elements of its tensors.
struct batch_fields {
  std::size_t size = 0, nonzeros = 0;
  std::uint64_t number = 0, epoch = 0;
  std::vector<tensor_form> tensors;

  void keep(archive& a) {
    a.version(1);
    a.field("size", size);
    a.field("nonzeros", nonzeros);
    a.field("number", number);
    a.field("epoch", epoch);
    a.field("tensors", tensors);
  }
};

/// Takes the tensors from the elements behind each other.
std::shared_ptr<const batch> batch_of(const batch_fields& fields, std::span<const std::byte> elements) {
  std::size_t bytes = 0;
  for (const tensor_form& t : fields.tensors) {
    if (t.bytes() > elements.size() - bytes)
      throw archive_error("batch: the elements of a tensor are missing");
    bytes += t.bytes();
  }
  if (bytes != elements.size())
    throw archive_error(
        fmt::format("batch: expected {} bytes of elements, found {}", bytes, elements.size()));
  if (fields.tensors.size() < named_tensors || fields.size == 0)
    throw archive_error("batch: expected samples and their tensors, found none");
  auto made = std::make_shared<batch>();
  made->size = fields.size;
  made->nonzeros = fields.nonzeros;
  made->number = fields.number;
  made->epoch = fields.epoch;
  made->inputs.resize(fields.tensors.size() - named_tensors);
  std::vector<tensor*> all{&made->features, &made->columns,    &made->values,
                           &made->offsets,  &made->categories, &made->labels};
  for (tensor& input : made->inputs) all.push_back(&input);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const tensor_form& form = fields.tensors[i];
    *all[i] = tensor::for_overwrite(form.dims, form.type);
    if (form.bytes() > 0) std::memcpy(all[i]->data(), elements.data(), form.bytes());
    elements = elements.subspan(form.bytes());
  }
  return made;
}

} // namespace

attached gradient_form::write(const caf::message& m, const actor_address& to, field_inspector& fields) {
  const auto& x = m.get_as<push_gradient>(0);
  const std::uint32_t shard = to.number;
  gradient_header header = x.header;
  header.times.wire = terms_.clock->take(shard);
  const auto encoded = x.payload.values ? encode(x, shard) : std::nullopt;
  if (encoded) header.scale_bits = std::bit_cast<std::uint32_t>(1.0F); // it has been multiplied in
  packing how = packing_of(x, encoded.has_value());
  fields.field("header", header);
  fields.field("packing", how);
  terms_.clock->begin(shard, terms_.time->now());
  if (how == packing::none) return {};
  if (how == packing::encoded) return {std::as_bytes(std::span(*encoded->dense)), encoded->dense};
  if (how != packing::floats) return pack(x, shard, encoded);
  const shard_range range = dense_range_of(*terms_.layout, shard);
  return {std::as_bytes(x.payload.values->dense.on_host<float>().subspan(range.begin, range.size())),
          x.payload.values};
}

gradient_form::packing gradient_form::packing_of(const push_gradient& x, bool encoded) const {
  if (!x.payload.values) return packing::none;
  if (is_plain(x)) return encoded ? packing::encoded : packing::floats;
  return encoded ? packing::encoded_archive : packing::archive;
}

attached gradient_form::pack(const push_gradient& x, std::uint32_t shard,
                             const std::optional<gradient_encoder::messages>& encoded) const {
  const gradient& g = *x.payload.values;
  byte_archive_writer a;
  std::vector<std::pair<std::size_t, std::string>> tables;
  if (encoded) {
    std::string dense = text_of(encoded->dense);
    a.field("dense", dense);
    for (const auto& [variable, rows] : encoded->tables) tables.emplace_back(variable, text_of(rows));
  } else {
    const shard_range range = dense_range_of(*terms_.layout, shard);
    std::shared_ptr<const coverage> covered = g.covered;
    keep_ranges(a, "covered", covered);
    a.hold("dense", nullptr, g.dense.on_host<float>().subspan(range.begin, range.size()));
    pack_addends(a, g, range);
    for (const gradient_rows& part : g.sparse)
      tables.emplace_back(part.variable, encoded_rows_of(*terms_.layout, part, shard));
  }
  std::size_t count = tables.size();
  a.field("tables", count);
  for (auto& [variable, rows] : tables) {
    std::string once = std::move(rows); // so that no table is held beside the archive's copy
    a.field("variable", variable);
    a.field("rows", once);
  }
  a.hold("read", nullptr, x.payload.read ? x.payload.read.on_host() : std::span<const float>());
  const auto bytes = std::make_shared<const std::string>(a.bytes());
  return {std::as_bytes(std::span(*bytes)), bytes};
}

void gradient_form::unpack(const std::string& bytes, std::uint32_t shard, bool is_encoded, gradient& into,
                           snapshot& read) const {
  byte_archive_reader a(bytes, "gradient");
  const wire_format& format = is_encoded ? terms_.wire : exact;
  const shard_range range = dense_range_of(*terms_.layout, shard);
  const std::span<float> dense = into.dense.on_host<float>().subspan(range.begin, range.size());
  if (is_encoded) {
    std::string numbers;
    a.field("dense", numbers);
    decode(format, std::as_bytes(std::span(numbers)), dense);
  } else {
    keep_ranges(a, "covered", into.covered);
    a.floats("dense", dense);
    unpack_addends(a, into, range, terms_.devices);
  }
  std::size_t tables = 0;
  a.field("tables", tables);
  for (std::size_t i = 0; i < tables; ++i) {
    std::size_t variable = 0;
    std::string rows;
    a.field("variable", variable);
    a.field("rows", rows);
    decode_table(format, *terms_.layout, variable, rows, into);
  }
  const std::span<const float> weights = a.array("read").values;
  if (!weights.empty()) {
    if (weights.size() != terms_.layout->shard(shard).size())
      throw archive_error(fmt::format("gradient: expected {} weights, found {}",
                                      terms_.layout->shard(shard).size(), weights.size()));
    read = copy_of(std::as_bytes(weights));
  }
  a.require_end();
}

void gradient_form::require_ours(const gradient_header& header, packing how, std::uint32_t shard) const {
  const gradient_id& id = header.id;
  if (how > packing::none)
    throw archive_error(fmt::format("gradient: there is no packing {}", static_cast<int>(how)));
  if (shard >= terms_.bounds.buffers->shards())
    throw archive_error(fmt::format("gradient: expected a shard from 0 to {}, found {}",
                                    terms_.bounds.buffers->shards() - 1, shard));
  if (id.worker != terms_.worker || id.incarnation != terms_.incarnation)
    throw archive_error(fmt::format(
        "gradient: expected one of worker {} (incarnation {}), found one of worker {} "
        "(incarnation {})",
        terms_.worker.value, terms_.incarnation.value + 1, id.worker.value, id.incarnation.value + 1));
  if (header.sum.has_value() != terms_.all_reduce || header.is_carried() != (how == packing::none))
    throw archive_error(fmt::format(
        "gradient of worker {}: expected {}, found {} with packing {}", id.worker.value,
        terms_.all_reduce ? "one of a sum, whose carrier alone has values" : "one with values of its own",
        header.sum ? "one of a sum" : "one alone", static_cast<int>(how)));
}

arriving gradient_form::unpacked_later(const gradient_header& header, std::uint32_t shard,
                                       std::shared_ptr<gradient> into, bool is_encoded,
                                       std::uint64_t size) const {
  const auto bytes = std::make_shared<std::string>(size, '\0');
  return {std::as_writable_bytes(std::span(*bytes)),
          [this, header, shard, into, bytes, is_encoded, what = held_by(shard, size)] {
            snapshot read;
            unpack(*bytes, shard, is_encoded, *into, read);
            return arrive(header, shard, into, std::move(read), what);
          }};
}

/// What a gradient takes until it is read and added up. It is taken when nothing can be wrong with it any
/// more.
gradient_form::held gradient_form::held_by(std::uint32_t shard, std::uint64_t bytes) const {
  held what;
  const auto& [on_way, credit, buffers] = terms_.bounds;
  if (on_way && bytes > 0) what.room = on_way->arriving(terms_.worker, bytes);
  if (credit) what.credit = credit->arriving(terms_.session, shard);
  return what;
}

/// The gradient in the memory of its worker, where the range of this shard has the place that it has among
/// all weights; null if it lies otherwise.
std::shared_ptr<const gradient> gradient_form::where_it_lies(const net::borrowed& lent,
                                                             std::uint32_t shard) const {
  const shard_range range = dense_range_of(*terms_.layout, shard);
  const std::size_t whole = terms_.layout->dense_size() * sizeof(float);
  const auto begin = static_cast<std::size_t>(lent.bytes.data() - lent.block.data());
  if (begin != range.begin * sizeof(float) || lent.bytes.size() != range.size() * sizeof(float) ||
      lent.block.size() < whole)
    return nullptr;
  auto made = std::make_shared<gradient>();
  made->dense = memory(block::in_memory_of(lent.keeps, {const_cast<std::byte*>(lent.block.data()), whole}));
  return made;
}

arriving gradient_form::begin(field_inspector& fields, const actor_address&, const actor_address& to,
                              const announced& values) {
  const std::uint64_t size = values.bytes;
  const std::uint32_t shard = to.number;
  gradient_header header;
  packing how{};
  fields.field("header", header);
  fields.field("packing", how);
  require_ours(header, how, shard);
  const bool lent = how == packing::floats && values.lent;
  const auto stays = lent ? where_it_lies(*values.lent, shard) : nullptr;
  if (stays || (how == packing::none && size == 0))
    return {{}, [this, header, shard, stays, what = held_by(shard)] {
              return arrive(header, shard, stays, {}, what);
            }};
  const auto into = terms_.bounds.buffers->take(shard);
  into->covered.reset();
  into->sparse.clear();
  into->held.clear();
  if (how != packing::archive) into->addends.clear();
  if (how == packing::archive || how == packing::encoded_archive)
    return unpacked_later(header, shard, into, how == packing::encoded_archive, size);
  const shard_range range = dense_range_of(*terms_.layout, shard);
  const std::span<float> place = into->dense.on_host<float>().subspan(range.begin, range.size());
  const std::size_t expected = how == packing::none     ? 0
                               : how == packing::floats ? place.size_bytes()
                                                        : encoded_bytes(terms_.wire, place.size());
  if (size != expected)
    throw archive_error(
        fmt::format("gradient for shard {}: expected {} bytes, found {}", shard, expected, size));
  if (how == packing::floats)
    return {std::as_writable_bytes(place), [this, header, shard, into, what = held_by(shard, size)] {
              return arrive(header, shard, into, {}, what);
            }};
  const auto bytes = std::make_shared<std::vector<std::byte>>(size);
  return {*bytes,
          [this, header, shard, into, place, bytes, what = held_by(shard, size + place.size_bytes())] {
            decode(terms_.wire, *bytes, place);
            return arrive(header, shard, into, {}, what);
          }};
}

caf::message gradient_form::arrive(const gradient_header& header, std::uint32_t shard,
                                   std::shared_ptr<const gradient> values, snapshot read, held what) const {
  const instant now = terms_.time->now();
  terms_.clock->begin(shard, now);
  return caf::make_message(push_gradient{
      header, {std::move(values), std::move(read), now, std::move(what.room), std::move(what.credit)}});
}

weights_form::weights_form(exchange_terms terms) : terms_(std::move(terms)) {
  for (std::size_t s = 0; s < terms_.layout->shard_count(); ++s)
    weights_.emplace_back([bytes = terms_.layout->shard(s).size() * sizeof(float)] {
      return std::make_shared<memory>(block(bytes));
    });
}

attached weights_form::write(const caf::message& m, const actor_address&, field_inspector& fields) {
  const auto& x = m.get_as<shard_weights>(0);
  weights_header header = x.header;
  bool has_met = static_cast<bool>(x.payload.met);
  std::optional<instant> held = terms_.clock->end(header.shard.value, terms_.time->now());
  if (!header.stay) held.reset();
  fields.field("header", header);
  fields.field("has met", has_met);
  fields.field("held", held);
  attached leaves = has_met ? joined(x.payload.values, x.payload.met)
                            : attached{std::as_bytes(x.payload.values.on_host()), x.payload.values.owner()};
  if (const auto& on_way = terms_.bounds.on_way)
    leaves.keeps = on_way->leaving(terms_.worker, std::move(leaves.keeps), leaves.bytes.size());
  return leaves;
}

arriving weights_form::begin(field_inspector& fields, const actor_address& from, const actor_address&,
                             const announced& values) {
  weights_header header;
  bool has_met = false;
  std::optional<instant> held;
  fields.field("header", header);
  fields.field("has met", has_met);
  fields.field("held", held);
  const std::uint32_t shard = header.shard.value;
  if (shard >= weights_.size())
    throw archive_error(
        fmt::format("weights: expected a shard from 0 to {}, found {}", weights_.size() - 1, shard));
  if (from != actor_address{duty::shard, shard})
    throw archive_error(fmt::format("weights: expected those of {}, which sent them, found those of shard {}",
                                    to_string(from), shard));
  const std::size_t one = terms_.layout->shard(shard).size() * sizeof(float);
  if (values.bytes != (has_met ? 2 * one : one))
    throw archive_error(fmt::format("weights of shard {}: expected {} bytes, found {}", shard,
                                    has_met ? 2 * one : one, values.bytes));
  const bool stays = values.lent && !has_met && is_block(values.lent->bytes);
  const auto into = stays     ? std::make_shared<memory>(block_of(*values.lent))
                    : has_met ? std::make_shared<memory>(block::for_overwrite(values.bytes))
                              : weights_[shard].take();
  const std::span<std::byte> place = std::as_writable_bytes(into->on_host<float>());
  return {stays ? std::span<std::byte>() : place,
          [this, header, held, has_met, into, place, one]() -> caf::message {
            const instant now = terms_.time->now();
            const std::size_t of = header.shard.value;
            if (terms_.encoder) terms_.encoder->answered(header.shard.value, header.discarded);
            if (const auto whole = terms_.clock->end(of, now); whole && held)
              terms_.clock->note(of, *whole - *held);
            if (!has_met) return caf::make_message(shard_weights{header, {snapshot(into), {}, now}});
            return caf::make_message(
                shard_weights{header, {copy_of(place.first(one)), copy_of(place.subspan(one)), now}});
          }};
}

attached batch_form::write(const caf::message& m, const actor_address&, field_inspector& fields) {
  const batch& b = *m.get_as<dealt_batch>(0).values;
  batch_fields said{b.size, b.nonzeros, b.number, b.epoch, {}};
  std::size_t elements = 0;
  for (const tensor* t : tensors_of(b)) {
    said.tensors.push_back({t->dims(), t->type()});
    elements += said.tensors.back().bytes();
  }
  byte_archive_writer a;
  said.keep(a);
  std::size_t description = a.bytes().size();
  fields.field("description", description);
  auto bytes = std::make_shared<std::string>(a.bytes());
  bytes->reserve(description + elements);
  for (const tensor* t : tensors_of(b))
    bytes->append(reinterpret_cast<const char*>(t->data()), t->size() * byte_size(t->type()));
  return {std::as_bytes(std::span(*bytes)), bytes};
}

arriving batch_form::begin(field_inspector& fields, const actor_address&, const actor_address&,
                           const announced& values) {
  const std::uint64_t size = values.bytes;
  std::size_t description = 0;
  fields.field("description", description);
  if (description > size)
    throw archive_error(
        fmt::format("batch: expected a description of at most {} bytes, found {}", size, description));
  const auto bytes = std::make_shared<std::string>(size, '\0');
  return {std::as_writable_bytes(std::span(*bytes)), [bytes, description] {
            byte_archive_reader a(std::string_view(*bytes).substr(0, description), "batch");
            batch_fields said;
            said.keep(a);
            a.require_end();
            return caf::make_message(
                dealt_batch{batch_of(said, std::as_bytes(std::span(*bytes)).subspan(description))});
          }};
}

} // namespace mailgrad::remote
