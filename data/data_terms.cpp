#include <mailgrad/data/data_terms.hpp>

#include <utility>

namespace mailgrad {

void data_terms::keep(archive& a) {
  a.version(1);
  a.field("name", name);
  a.field("samples", samples);
  a.field("sha256", sha256);
  bool known = source != nullptr;
  a.field("opened", known);
  data_source opened = source ? *source : data_source{};
  if (known) a.field("source", opened);
  if (a.reads()) source = known ? std::make_shared<const data_source>(std::move(opened)) : nullptr;
}

} // namespace mailgrad
