#include <mailgrad/actors/remote/body_form.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/data/batch.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/travelling.hpp>

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::remote {

namespace {

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
