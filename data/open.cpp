#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/data/formats/cifar.hpp>
#include <mailgrad/data/formats/idx.hpp>
#include <mailgrad/data/formats/text.hpp>
#include <mailgrad/data/open.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/npz.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/error.hpp>

#include <new>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

data_split open_idx(const data_files& files, const open_options& options) {
  byte_features train = read_idx_images(files.train.front());
  byte_features test = read_idx_images(files.test);
  if (test.dims != train.dims)
    throw_malformed(files.test, file_offset{8},
                    fmt::format("expected images of {}, as {} has, found {}", to_string(train.dims),
                                files.train.front().filename().string(), to_string(test.dims)));
  data_split split;
  split.train =
      join_idx(std::move(train), files.train.front(), read_idx_labels(files.train_labels), options.classes);
  split.test =
      join_idx(std::move(test), files.test, read_idx_labels(files.test_labels), split.train.classes());
  split.divisors = {byte_features::largest};
  return split;
}

std::vector<std::string> read_names(const fs::path& file) {
  std::vector<std::string> names;
  if (file.empty()) return names;
  line_reader lines{file};
  while (const auto line = lines.next()) names.emplace_back(*line);
  if (names.empty()) throw_malformed(file, "expected a class name a line, found an empty file");
  return names;
}

/// Makes one data set of several files. Labels are checked file by file, so that a message names the right
/// file.
dataset join_files(const data_files& files, const open_options& options, const cifar_record& record,
                   std::size_t classes) {
  cifar_records all{{record.dims, {}}, {}};
  all.labels.file = files.train.front();
  std::size_t shown = 0;
  for (const fs::path& file : files.train) {
    const cifar_records part = read_cifar(file, record, classes);
    shown = std::max(shown, classes > 0 ? classes : count_classes(part.labels));
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.images.values, part.images.values);
    append(all.labels.values, part.labels.values);
    options.limit.require(file, all.images.values.size());
  }
  return join_cifar(std::move(all), shown);
}

data_split open_cifar(const data_files& files, const open_options& options) {
  std::vector<std::string> names = read_names(files.class_names);
  const cifar_record record{options.record_dims, files.label_bytes};
  dataset train = join_files(files, options, record, options.classes > 0 ? options.classes : names.size());
  std::optional<dataset> test;
  if (!files.test.empty())
    test = join_cifar(read_cifar(files.test, record, train.classes()), train.classes());
  data_split split = with_test(files.train.front(), std::move(train), std::move(test), options);
  split.class_names = std::move(names);
  split.divisors = {byte_features::largest};
  return split;
}

/// The options as they are for these files, with nothing left open that another process would have to find.
open_options settled(const data_files& files, const open_options& options) {
  open_options o = options;
  if (files.format != file_format::libsvm || o.numbering != column_numbering::automatic) return o;
  const auto has_zero = [](const fs::path& file) { return !file.empty() && has_column_zero(file); };
  const bool from_zero =
      o.known ? o.known->counts_from_zero : has_zero(files.train.front()) || has_zero(files.test);
  o.numbering = from_zero ? column_numbering::from_zero : column_numbering::from_one;
  return o;
}

data_split open_libsvm(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  label_map labels = labels_for(options);
  libsvm_options wanted{options.features, options.numbering, false, options.limit};
  libsvm_rows train = read_libsvm(file, wanted, labels);
  wanted.may_be_wider = options.features == 0;
  wanted.features = train.features.width;
  dataset first{std::move(train.features), std::move(train.labels), labels.classes()};
  std::optional<dataset> tested;
  if (!files.test.empty()) {
    libsvm_rows test = read_libsvm(files.test, wanted, labels);
    tested = {std::move(test.features), std::move(test.labels), labels.classes()};
  }
  data_split split = with_test(files.train.front(), std::move(first), std::move(tested), options);
  split.class_names = labels.names();
  return split;
}

data_split open_text(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  text_corpus corpus = read_text(file, options.limit);
  if (options.known) number_as(file, options.known->class_names, corpus);
  const std::size_t window = options.window;
  const std::size_t stride = options.stride > 0 ? options.stride : window;
  const std::size_t count = corpus.tokens.size();
  const std::size_t symbols = corpus.symbols.size();
  if (options.known) {
    if (count <= window)
      throw_malformed(file, fmt::format("expected over {} characters, the window, found {}", window, count));
    dataset all(token_windows{std::move(corpus.tokens), window, stride}, {}, symbols);
    return {{}, std::move(all), {}, std::move(corpus.symbols)};
  }
  const double fraction = options.files.train_fraction.value_or(usual_text_fraction);
  const std::size_t part = count < 2 ? 0 : part_of(count, fraction);
  if (part <= window || count - part <= window)
    throw_malformed(
        file,
        fmt::format("expected over {} characters, the window, for training and for testing, found {} and {}",
                    window, part, count - part));
  const auto middle = corpus.tokens.begin() + static_cast<std::ptrdiff_t>(part);
  token_windows test{{middle, corpus.tokens.end()}, window, stride};
  corpus.tokens.resize(part); // not copied, because it is most of the text
  token_windows train{std::move(corpus.tokens), window, stride};
  return {{std::move(train), {}, symbols}, {std::move(test), {}, symbols}, {}, std::move(corpus.symbols)};
}

data_split open_ratings(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  rating_options ratings = options.ratings;
  ratings.limit = options.limit;
  const dataset all = read_ratings(file, files.items, ratings); // in the order in which they are cut
  if (options.known) return {{}, all, {}, {}};
  if (all.size() < 2) throw_malformed(file, "expected two rows or more to cut off a test set, found 1");
  const std::size_t part =
      part_of(all.size(), options.files.train_fraction.value_or(usual_training_fraction));
  return {all.slice(0, part), all.slice(part, all.size() - part), {}, {}};
}

/// Of pictures whose numbers are small, such as those of 12 bits, little is left.
void remark_deep(const fs::path& folder, const labelled_pictures& read, std::vector<std::string>& remarks) {
  if (read.deep > 0)
    remarks.push_back(
        fmt::format("{}: {} of {} pictures have numbers of 16 bits, of which the upper 8 are read",
                    folder.filename().string(), read.deep, read.labels.size()));
}

data_split open_pictures(const data_files& files, const open_options& options) {
  label_map labels = labels_for(options, label_spelling::characters);
  picture_options wanted{options.channels, {}, options.limit};
  std::vector<std::string> remarks;
  labelled_pictures train = read_pictures(files.train.front(), wanted, labels);
  remark_deep(files.train.front(), train, remarks);
  wanted.dims = train.images.dims;
  dataset first{std::move(train.images), std::move(train.labels), labels.classes()};
  std::optional<dataset> tested;
  if (!files.test.empty()) {
    labelled_pictures test = read_pictures(files.test, wanted, labels);
    remark_deep(files.test, test, remarks);
    tested = {std::move(test.images), std::move(test.labels), labels.classes()};
  }
  data_split split = with_test(files.train.front(), std::move(first), std::move(tested), options);
  split.class_names = labels.names();
  split.divisors = {byte_features::largest};
  split.remarks = std::move(remarks);
  return split;
}

bool is_float(npy_number n) { return n == npy_number::f64 || n == npy_number::f32 || n == npy_number::f16; }

/// Whether a double spells a whole number, so that no other has the same double.
bool is_whole(double x) {
  constexpr double exact = 9007199254740992; // 2^53
  return std::abs(x) < exact && x == std::floor(x);
}

[[noreturn]] void refuse_both(const npy_file& x, const npy_file& y, std::string_view what) {
  throw_malformed(x.file(),
                  fmt::format("arrays {} and {}: {}", in_quotes(x.name()), in_quotes(y.name()), what));
}

/// Pictures of three axes, samples, rows and columns, have one channel.
shape sample_dims(const npy_file& x) {
  const shape& all = x.header().dims;
  const auto wrong = [&](std::string_view what) {
    throw_malformed(x.file(),
                    fmt::format("array {} of shape {} {}", in_quotes(x.name()), to_string(all), what));
  };
  if (all.rank() == 0) wrong("has no axis of samples");
  if (all.rank() == 1) return {1};
  if (all.rank() == shape::max_rank) wrong("has too many axes");
  shape dims = all.rank() == 3 ? shape{all[1], all[2], 1} : shape(std::span(all.begin() + 1, all.end()));
  if (std::ranges::find(dims, std::size_t{0}) != dims.end()) wrong("has samples without a number");
  return dims;
}

/// Reads the arrays of a data set, wherever they lie, and says with the file what is wrong.
class array_reader {
public:
  explicit array_reader(const open_options& options)
      : options_(options), labels_(labels_for(options)), kind_(options.task) {}

  /// The samples of two arrays. Those for training come first, as they settle the labels.
  dataset samples(npy_file x, npy_file y) {
    const shape& answers = y.header().dims;
    if (answers.rank() == 0 || answers.size() != answers[0])
      y.fail(fmt::format("expected one number a sample, found shape {}", to_string(answers)));
    feature_store read = features(x);
    if (x.header().dims[0] != answers[0])
      refuse_both(x, y, fmt::format("{} samples have {} answers", x.header().dims[0], answers[0]));
    try {
      return with_answers(std::move(read), y);
    } catch (const std::invalid_argument& e) { // a number that is not finite
      refuse_both(x, y, e.what());
    }
  }
  data_split split(const data_files& files, dataset first, std::optional<dataset> test) {
    if (test && first.sample_dims() != test->sample_dims())
      throw_malformed(files.format == file_format::npz ? files.train.front() : files.test,
                      fmt::format("expected samples of {} in x_test, as in x_train, found {}",
                                  to_string(first.sample_dims()), to_string(test->sample_dims())));
    data_split both = with_test(files.train.front(), std::move(first), std::move(test), options_);
    both.class_names = labels_.names();
    both.divisors = divisors_;
    both.remarks = std::move(remarks_);
    return both;
  }

private:
  feature_store features(npy_file& x) {
    const shape dims = sample_dims(x);
    const std::size_t count = x.header().dims.size();
    const bool bytes = x.header().numbers == npy_number::u8;
    options_.limit.require(x.file(), count * (bytes ? 1 : sizeof(float)));
    if (options_.known) divisors_ = options_.known->divisors;
    if (divisors_.size() > 1 && divisors_.size() != dims.size())
      throw_malformed(x.file(),
                      fmt::format("expected {} numbers a sample, as the model was trained on, found {}",
                                  divisors_.size(), dims.size()));
    if (bytes && divisors_.size() < 2) {
      if (!options_.known && is_first_) divisors_ = {byte_features::largest};
      is_first_ = false;
      byte_features f{dims, std::vector<std::uint8_t>(count), divisors_.empty() ? 1 : 1 / divisors_.front()};
      x.read(std::span(f.values));
      return f;
    }
    is_first_ = false;
    float_features f{dims, std::vector<float>(count)};
    x.read(std::span(f.values));
    divide(f.values, divisors_);
    return f;
  }

  dataset with_answers(feature_store read, npy_file& y) {
    if (!kind_ && is_float(y.header().numbers)) return with_floats(std::move(read), y);
    if (!kind_) kind_ = label_kind::classes;
    if (kind_ == label_kind::classes) {
      std::vector<std::int64_t> numbers(y.left());
      y.read(std::span(numbers));
      return with_classes(std::move(read), y, numbers);
    }
    std::vector<float> targets(y.left());
    y.read(std::span(targets));
    return {std::move(read), std::move(targets)};
  }

  /// The first answers, of a type that fractions have: if they are all whole, they are classes.
  dataset with_floats(feature_store read, npy_file& y) {
    std::vector<double> numbers(y.left());
    y.read(std::span(numbers));
    kind_ = std::ranges::all_of(numbers, is_whole) ? label_kind::classes : label_kind::numbers;
    if (kind_ == label_kind::numbers) {
      const auto wide =
          std::ranges::find_if(numbers, [](double x) { return std::isfinite(x) && !fits_float(x); });
      if (wide != numbers.end())
        y.fail(fmt::format("number {} is too large for float32", wide - numbers.begin()));
      return {std::move(read), std::vector<float>(numbers.begin(), numbers.end())};
    }
    dataset samples =
        with_classes(std::move(read), y, std::vector<std::int64_t>(numbers.begin(), numbers.end()));
    remarks_.push_back(
        fmt::format("{}: all {} numbers of array {} are whole, so they are taken for {} classes; "
                    "--task regression (open_options::task) learns them as numbers",
                    y.file().filename().string(), numbers.size(), in_quotes(y.name()), samples.classes()));
    return samples;
  }

  dataset with_classes(feature_store read, const npy_file& y, std::span<const std::int64_t> numbers) {
    std::vector<std::int32_t> classes(numbers.size());
    const bool opens = labels_.is_open();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto label = labels_.find(std::to_string(numbers[i]));
      if (!label)
        y.fail(fmt::format("expected {}, found {} at number {}", labels_.expected(), numbers[i], i));
      classes[i] = *label;
    }
    if (opens) labels_.settle(classes);
    return {std::move(read), std::move(classes), labels_.classes()};
  }
  const open_options& options_;
  label_map labels_;
  std::optional<label_kind> kind_; ///< what is learnt, once somebody or the first answers have said it
  std::vector<float> divisors_;
  std::vector<std::string> remarks_;
  bool is_first_ = true; ///< the samples that are read decide what numbers are divided by
};

class archive_arrays {
public:
  explicit archive_arrays(const fs::path& file)
      : archive_(file, {"x", "X", "y", "x_train", "X_train", "y_train", "x_test", "X_test", "y_test"}) {}

  const std::vector<std::string>& passed_over() const noexcept { return archive_.passed_over(); }

  const npz_array* find(const std::string& name) const {
    const npz_array* const found = archive_.find(name);
    std::string capital = name;
    capital.front() = 'X'; // as many write a matrix
    return found != nullptr || !name.starts_with('x') ? found : archive_.find(capital);
  }
  npy_file open(const std::string& name) const {
    const npz_array* const found = find(name);
    if (found == nullptr) fail(fmt::format("expected an array '{}', found none", name));
    return archive_.open(*found);
  }
  [[noreturn]] void fail(std::string_view what) const { throw_malformed(archive_.file(), what); }

private:
  npz_file archive_;
};

npy_file open_answers(const fs::path& samples, const fs::path& answers) {
  if (answers.empty())
    throw_malformed(samples, "expected answers beside the samples, in y.npy beside x.npy, y_train.npy beside "
                             "x_train.npy or y_test.npy beside x_test.npy, found samples alone; 'mailgrad "
                             "predict --rows' reads those");
  return npy_file(answers);
}

/// Opens arrays of numpy in an archive *.npz: x_train, y_train, x_test and y_test, or x and y to be cut.
/// Samples count along the first axis. Bytes are pictures; other numbers are taken as they are. Unless the
/// options have a task, the answers of the training part are classes if they are all whole, of whatever type.
/// Errors  file_error: arrays that are not there or do not fit together, and as npz_file.
data_split open_npz(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  const archive_arrays arrays(file);
  const bool named = arrays.find("x_train") != nullptr;
  const bool tested = arrays.find("x_test") != nullptr;
  if (!named && arrays.find("x") == nullptr)
    arrays.fail("expected arrays x_train, y_train, x_test and y_test, or x and y, found neither");
  if (tested && options.files.train_fraction)
    arrays.fail("expected one array to cut, as a part for testing is asked for, found x_train and x_test");
  array_reader reader(options);
  dataset first = reader.samples(arrays.open(named ? "x_train" : "x"), arrays.open(named ? "y_train" : "y"));
  std::optional<dataset> test;
  if (tested) test = reader.samples(arrays.open("x_test"), arrays.open("y_test"));
  data_split both = reader.split(files, std::move(first), std::move(test));
  for (const std::string& name : arrays.passed_over())
    both.remarks.push_back(fmt::format("{}: array {} holds no numbers, and is passed over",
                                       file.filename().string(), in_quotes(name)));
  return both;
}

/// The same for arrays that are files of their own, *.npy: samples with their answers, and those of a test
/// part if there is one.
/// Errors  file_error: samples without a file of answers; arrays that do not fit together, and as npy_file.
data_split open_npy(const data_files& files, const open_options& options) {
  const fs::path& file = files.train.front();
  array_reader reader(options);
  dataset first = reader.samples(npy_file(file), open_answers(file, files.train_labels));
  std::optional<dataset> test;
  if (!files.test.empty())
    test = reader.samples(npy_file(files.test), open_answers(files.test, files.test_labels));
  return reader.split(files, std::move(first), std::move(test));
}

/// The option that only files of another format have; empty: there is none.
std::string_view misplaced_option(const data_files& files, const open_options& options) {
  const csv_options& c = options.csv;
  if (files.format != file_format::csv) {
    if (c.header != csv_header::automatic) return "--header (csv_options::header), for CSV";
    if (c.delimiter != 0) return "--delimiter (csv_options::delimiter), for CSV";
    if (c.decimal != 0) return "--decimal (csv_options::decimal), for CSV";
    if (c.label != csv_label::automatic) return "--label (csv_options::label), for CSV";
    if (c.missing != missing_values::refuse) return "--missing (csv_options::missing), for CSV";
    if (!c.categories.empty()) return "--categories (csv_options::categories), for CSV";
    if (!c.left_out.empty()) return "--leave-out (csv_options::left_out), for CSV";
  }
  if (files.format != file_format::text && options.window != open_options{}.window)
    return "--window (open_options::window), for texts";
  if (files.format != file_format::ratings && options.ratings.order != rating_order::random)
    return "--split (rating_options::order), for ratings";
  return {};
}

void require_fitting_options(const data_files& files, const open_options& options) {
  const auto refuse = [&](std::string_view why) { throw_malformed(files.train.front(), why); };
  if (const std::string_view misplaced =
          options.known ? std::string_view() : misplaced_option(files, options);
      !misplaced.empty())
    refuse(fmt::format("expected data that fit the option {}, found another format", misplaced));
  const bool ratings = files.format == file_format::ratings;
  if (options.task == label_kind::classes && ratings)
    refuse("expected classes, found ratings, which are numbers to predict");
  const bool either = files.format == file_format::csv || files.format == file_format::npz ||
                      files.format == file_format::npy;
  if (options.task == label_kind::numbers && !ratings && !either)
    refuse("expected numbers to predict, as a CSV file may have them, found classes");
  if (options.features > 0 && files.format != file_format::libsvm && !options.known)
    refuse("expected a libsvm file, as --features (open_options::features) is given, found another format, "
           "whose files show how wide they are");
}

data_split open_files(const data_files& files, const open_options& options) {
  require_fitting_options(files, options);
  using opener = data_split (*)(const data_files&, const open_options&);
  constexpr std::array<opener, 10> openers{nullptr,   open_idx,     open_cifar, open_csv, open_libsvm,
                                           open_text, open_ratings, open_npz,   open_npy, open_pictures};
  if (const opener found = openers[static_cast<std::size_t>(files.format)]) return found(files, options);
  if (const std::string_view advice = advice_on(files.train.front()); !advice.empty())
    throw_malformed(files.train.front(), fmt::format("expected a data set, found {}", advice));
  throw_malformed(
      files.train.front(),
      "expected IDX, CIFAR (*.bin), CSV, libsvm, ratings, arrays of numpy or UTF-8 text, plain or "
      "packed by gzip, found none of them in its first bytes");
}

[[noreturn]] void throw_too_large(const data_files& files) {
  std::uint64_t bytes = 0;
  std::error_code gone;
  for (const fs::path& file : files.all())
    if (const std::uint64_t size = fs::file_size(file, gone); !gone) bytes += size;
  throw file_error(
      std::make_error_code(std::errc::not_enough_memory),
      fmt::format(
          "{}: out of memory after reading some of its {}; a character of text takes 4 bytes, an entry "
          "of libsvm 8, a number of CSV 4, and a test set that is cut off as much again; take a part "
          "of it",
          in_quotes(files.name), byte_count(bytes).text()));
}

void require_sensible(const open_options& options) {
  const double fraction = options.files.train_fraction.value_or(usual_training_fraction);
  if (!(fraction > 0 && fraction < 1))
    throw std::invalid_argument("open_data: train_fraction lies between 0 and 1");
  if (options.window == 0) throw std::invalid_argument("open_data: a window needs a token");
  if (!(options.validation >= 0 && options.validation < 1))
    throw std::invalid_argument("validation: the share of the training samples lies between 0 and 1");
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

template <class E>
void keep_optional(archive& a, std::optional<E>& x, E last) {
  bool present = x.has_value();
  a.field("given", present);
  if (!present) return x.reset();
  if (!x) x.emplace();
  a.choice("value", *x, last);
}

} // namespace

data_split open_data(std::string_view name_or_path, const open_options& options) {
  require_sensible(options);
  const data_files files = find_files(name_or_path, options.files);
  try {
    const open_options o = settled(files, options);
    data_split split = open_files(files, o);
    split.name = files.name;
    if (o.validation > 0)
      hold_out(split, o.validation, o.seed,
               files.format == file_format::ratings ? held_out::last : held_out::drawn);
    if (is_told(o))
      split.source = std::make_shared<const data_source>(data_source{std::string(name_or_path), o});
    data_reading noted = split.reading ? *split.reading : data_reading{};
    split.reading = std::make_shared<const data_reading>(reading_of(split, files, o, std::move(noted)));
    if (!o.known)
      for (std::string& remark : remarks_on(split)) split.remarks.push_back(std::move(remark));
    return split;
  } catch (const std::bad_alloc&) {
    throw_too_large(files);
  }
}

void data_source::keep(archive& a) {
  open_options& o = options;
  a.version(2);
  a.field("path", path);
  a.choice("format", o.files.format, file_format::pictures);
  a.field("train fraction", o.files.train_fraction);
  a.field("classes", o.classes);
  a.field("features", o.features);
  a.choice("first column", o.numbering, column_numbering::from_zero);
  std::vector<std::size_t> extents(o.record_dims.begin(), o.record_dims.end());
  a.field("record dims", extents);
  if (a.reads()) o.record_dims = shape(std::span<const std::size_t>(extents));
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
