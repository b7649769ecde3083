// A project of its own, which knows of Mailgrad only where it was installed: tells two clouds of points
// apart.
#include <mailgrad/mailgrad.hpp>

#include <cstdio>
#include <memory>

#ifdef CAF_MAJOR_VERSION
#error "the public headers bring CAF's"
#endif

int main() {
  mailgrad::float_features points{.dims = {2}, .values = {}};
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 256; ++i) {
    const float centre = i % 2 == 0 ? -1.0F : 1.0F;
    points.values.insert(points.values.end(), {centre + 0.05F * static_cast<float>(i % 16), centre});
    labels.push_back(i % 2);
  }
  const mailgrad::dataset clouds(std::move(points), std::move(labels), 2);

  mailgrad::training_options options;
  options.optimizer.learning_rate = 0.1;
  options.epochs = 10;
  const auto report = mailgrad::train(
      mailgrad::find_model("softmax"),
      std::make_shared<mailgrad::data_split>(mailgrad::data_split{clouds, clouds, "clouds", {}}), options);
  std::printf("%s\n", mailgrad::to_json(report).c_str());
  return report.ended == "completed" && report.test_accuracy > 0.95 ? 0 : 1;
}
