#include <mailgrad/data/data_source.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

void keep_extents(archive& a, shape& dims) {
  std::vector<std::size_t> extents(dims.begin(), dims.end());
  a.field("record dims", extents);
  if (a.reads()) dims = shape(std::span<const std::size_t>(extents));
}

void keep_csv(archive& a, csv_options& o) {
  a.choice("label", o.label, csv_label::named);
  a.choice("header", o.header, csv_header::absent);
  auto delimiter = static_cast<unsigned char>(o.delimiter);
  a.field("delimiter", delimiter);
  o.delimiter = static_cast<char>(delimiter);
  auto decimal = static_cast<unsigned char>(o.decimal);
  a.field("decimal", decimal);
  o.decimal = static_cast<char>(decimal);
  a.field("columns", o.columns);
  a.choice("holds", o.holds, label_kind::numbers);
  a.field("label column", o.label_column);
  a.choice("missing", o.missing, missing_values::mean);
  a.field("categories", o.categories);
  a.field("left out", o.left_out);
}

/// A choice that may be left open.
template <class E>
void keep_optional(archive& a, std::optional<E>& x, E last) {
  bool present = x.has_value();
  a.field("given", present);
  if (!present) return x.reset();
  if (!x) x.emplace();
  a.choice("value", *x, last);
}

} // namespace

void data_source::keep(archive& a) {
  open_options& o = options;
  a.version(2);
  a.field("path", path);
  a.choice("format", o.files.format, file_format::pictures);
  a.field("train fraction", o.files.train_fraction);
  a.field("classes", o.classes);
  a.field("features", o.features);
  a.choice("first column", o.numbering, column_numbering::from_zero);
  keep_extents(a, o.record_dims);
  a.choice("channels", o.channels, picture_channels::rgb);
  a.group("csv", [&] { keep_csv(a, o.csv); });
  a.group("task", [&] { keep_optional(a, o.task, label_kind::numbers); });
  a.choice("scale", o.scale, feature_scale::column_maximum);
  a.field("window", o.window);
  a.field("stride", o.stride);
  a.choice("order of ratings", o.ratings.order, rating_order::by_time);
  a.field("seed of ratings", o.ratings.seed);
  a.field("seed", o.seed);
  a.field("validation", o.validation);
}

bool is_told(const open_options& options) { return !options.known && options.csv.table.columns.empty(); }

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
