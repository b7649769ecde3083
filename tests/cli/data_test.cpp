#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/data/drawn_pictures.hpp>

#include <mailgrad/files/npz.hpp>

#include <fmt/format.h>

#include <tuple>

// What the tool does with tables, which are CSV files with names, words and missing values, with folders of
// pictures, and with arrays of numpy.

namespace mailgrad::testing {
namespace {

struct Table : ToolTest {
  /// Flowers with a key, in the order of their kinds. Red ones are roses, whatever their size; some sizes are
  /// missing.
  std::string flowers() const {
    std::string text = "\ufeffkey;kind;colour;size\r\n";
    for (int i = 0; i < 80; ++i)
      text += "k" + std::to_string(i) + (i < 40 ? ";rose;red;" : ";tulip;\"yellow; pale\";") +
              (i % 10 == 3 ? "NA" : std::to_string(i % 7)) + "\r\n";
    return file("flowers.csv", text);
  }
  /// Words of two encodings, decimal commas, and labels that are codes.
  std::string cities() const {
    std::string text = "stadt;wert;class\n";
    for (int i = 0; i < 50; ++i) text += i % 2 == 0 ? "K\xf6ln;1,5;010\n" : "M\xfcnchen;-12.345,5;10\n";
    return file("cities.csv", text);
  }
  std::string file(const std::string& name, const std::string& bytes) const {
    return folder.write(name, bytes);
  }
  static words train(const std::string& data, const words& more) {
    return "train --model softmax --batch 8 --epochs 30 --lr 0.5 --quiet --data"_w + data + more;
  }
  /// What a command says of the model and `more`.
  spoken by(const std::string& command, const words& more) const {
    return done(words{command, "--model-file", model} + more);
  }

  const std::string model = path("m.safetensors");
};

/// A file of later rows shows neither how wide the model is nor that its columns count from 0.
TEST_F(Table, OfSparseRowsIsUsedAsItsTrainingFileWas) {
  std::string rows = "# columns count from 0\n";
  for (int i = 0; i < 40; ++i) rows += "1 0:1 3:1\n0 2:1\n";
  const std::string data = file("rows", rows);
  file("rows.t", "1 3:1 6:1\n0 2:1\n");
  expect_error(train(data, {"--save", model}), "expected an index from 0 to 3, found '6'; --features N");
  done(train(data, "--features 8 --save"_w + model + "--report" + path("run.json")));
  EXPECT_EQ(report()["test_accuracy"], 1.0);
  EXPECT_THAT(by("test", {"--data", file("later", "1 3:1\n0 2:1\n")}).out, HasSubstr("1.0000"));
}

TEST_F(Table, IsLearntAndUsedAsItsOptionsSay) {
  const std::string data = flowers();
  EXPECT_THAT(
      done(train(data, "--label kind --leave-out key --missing mean --delimiter ; --test-fraction 0.25 "
                       "--save"_w +
                           model + "--report" + path("run.json")))
          .err,
      Not(HasSubstr("class")))
      << "both kinds are in both parts";
  EXPECT_EQ(report()["test_accuracy"], 1.0);
  EXPECT_THAT(by("test", {"--data", data}).out, HasAll("80 samples", "accuracy      1.0000"));
  EXPECT_THAT(by("predict", {"--rows", file("new.csv", "x;red;?\ny;\"yellow; pale\";3\n")}).out,
              HasAll("rose,0.", "tulip,0."));
  expect_error("predict --header no --model-file"_w + model + "--rows" + file("blue.csv", "x;blue;1\n"),
               "expected one of the 2 words 'red', 'yellow; pale' in column 2, found 'blue'");
}

TEST_F(Table, SaysWhatIsLeftOutAndWhichClassesAreMissing) {
  const std::string data = flowers();
  EXPECT_THAT(
      done(train(data, "--label 2 --missing drop --leave-out key --save"_w + model)).err,
      HasSubstr("mailgrad: warning: flowers.csv: 8 of 80 rows have missing values and were left out"));
  const spoken tested = by("test", {"--data", data});
  EXPECT_THAT(tested.err, HasSubstr("8 of 80 rows have missing values"));
  EXPECT_THAT(tested.out, HasSubstr("72 samples"));
  EXPECT_THAT(refusal({"predict", "--model-file", model, "--data", data}),
              HasSubstr("line 5: expected a finite number in column 4, found 'NA'"))
      << "an answer for each row, or none";
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += std::to_string(i) + ",a\n";
  EXPECT_THAT(done(train(file("alike.csv", rows), {})).err,
              HasSubstr("mailgrad: warning: all 16 samples to train on are of one class, 'a'"));
}

TEST_F(Table, SaysWhatWasUnderstoodBeforeItTrains) {
  const words run = "train --model softmax --batch 8 --data"_w + cities();
  EXPECT_THAT(done(run + "--report" + path("run.json")).err,
              AllOf(StartsWith("read as   CSV in Windows-1252, ';' between fields, ',' as decimal sign, '.'\n"
                               "          between thousands, with a header\n"
                               "columns   1 of numbers, 1 of categories; 3 inputs\n"
                               "label     'class', column 3: its name says so\n"
                               "task      2 classes: the label holds codes, such as 007\n"
                               "classes   20 samples each\n"
                               "test      10 samples: 0.2 of the file, drawn from each class in proportion\n"
                               "missing   no values\n"),
                    HasSubstr("\ncities.csv: 40 samples to train on")));
  const json reading = report()["reading"];
  EXPECT_EQ(reading["table"]["encoding"], "Windows-1252");
  EXPECT_EQ(nlohmann::json(reading["classes"]["smallest"]),
            nlohmann::json::parse(R"({"name": "010", "samples": 20})"));
  EXPECT_EQ(tool(run + "--quiet").err(), "");
}

TEST_F(Table, MayHaveACommaInTheNameOfAColumn) {
  std::string text = "\"a,b\",a,b,kind\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{},7,{}\n", i, i % 3, i % 2 == 0 ? "x" : "y");
  EXPECT_THAT(done("train --leave-out \"a,b\",b --batch 4 --dry-run --data"_w + file("names.csv", text)).err,
              HasSubstr("columns   1 of numbers, 2 left out ('a,b', 'b'); 1 input\n"));
}

TEST_F(Table, IsReadByTheDecimalSignThatIsAskedFor) {
  std::string text = "a;kind\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("1.{}00;{}\n", i % 10, i % 2 == 0 ? "x" : "y");
  EXPECT_THAT(done("train --decimal comma --batch 4 --dry-run --data"_w + file("n.csv", text)).err,
              HasSubstr("',' as decimal sign, '.'"));
}

TEST_F(Table, IsUsedAsItIsWrittenByATrainedModel) {
  const std::string data = cities();
  done(train(data, {"--save", model}));
  const spoken tested = by("test", {"--data", data});
  EXPECT_THAT(tested.out, HasSubstr("accuracy      1.0000"));
  EXPECT_THAT(tested.err, HasAll("read as   CSV in Windows-1252", "column 3: as in training"));
  by("predict", {"--data", data});
  EXPECT_THAT(by("predict", {"--rows", file("new.csv", "K\xf6ln;1,5\nM\u00fcnchen;-12.345,5\n")}).out,
              AllOf(StartsWith("class,probability,010,10\n010,0."), HasSubstr("\n10,0.")));
}

TEST_F(Table, IsOnlyLookedAtInADryRun) {
  const words run = "train --batch 8 --dry-run --data"_w + cities() + "--save" + path("m") + "--report" +
                    path("r.json") + "--record" + path("rec");
  const spoken said = done(run);
  EXPECT_THAT(said.err,
              AllOf(HasSubstr("read as   CSV in Windows-1252"), Not(HasSubstr("samples to train on")),
                    ContainsRegex("mlp with [0-9]+ weights fits these data and options, under "
                                  "async; nothing was trained\n")));
  EXPECT_EQ(said.out, "");
  for (const char* name : {"m", "r.json", "rec"}) EXPECT_FALSE(std::filesystem::exists(path(name))) << name;
  refusal(run + "--policy k-async:7"_w); // the policy asks for more workers
  refusal("train --dry-run --resume"_w + path("no"));
}

TEST_F(Table, RefusesMissingValuesUnlessItIsTold) {
  expect_error(train(flowers(), "--label kind --leave-out key"_w),
               "line 5: expected a finite number in column 4, found 'NA'; --missing drop or mean");
}

TEST_F(Table, RefusesWordsThatMeanNothing) {
  const std::string data = flowers();
  for (const auto& [option, value, says] : {std::tuple{"--delimiter", "ab", "expected one character"},
                                            {"--delimiter", "\"", "expected one character"},
                                            {"--test-fraction", "0", "between 0 and 1"},
                                            {"--test-fraction", "1", "between 0 and 1"},
                                            {"--test-fraction", "2", "--test-fraction"},
                                            {"--missing", "guess", "--missing"},
                                            {"--decimal", "dot", "--decimal"},
                                            {"--leave-out", "\"key\"x", "expected double quotes"},
                                            {"--header", "maybe", "--header"},
                                            {"--label", "sort", "expected a column called 'sort'"}})
    EXPECT_THAT(refusal(train(data, {option, value})), HasSubstr(says)) << option << ' ' << value;
}

TEST_F(Table, ShapesTheGraphThatIsDrawn) {
  EXPECT_THAT(
      done("graph --model softmax --label kind --leave-out key --missing drop --data"_w + flowers()).out,
      HasSubstr("64x3"))
      << "two colours and a size";
}

TEST_F(Table, IsReplayedWithItsOptions) {
  done(train(flowers(),
             "--label kind --leave-out key,size --test-fraction 0.5 --seed 9 --record"_w + path("run.rec")));
  done("replay --quiet"_w + path("run.rec"));
}

struct Pictures : ToolTest {
  /// Pictures of 4 x 4 pixels: those of the night are dark.
  void draw() const {
    for (const std::string name : {"sky/day", "sky/night"}) {
      std::filesystem::create_directories(sky + name.substr(3));
      for (int i = 0; i < 20; ++i) {
        const std::string pixels(16, static_cast<char>((name == "sky/day" ? 100 : 0) + i));
        const bool is_png = i % 2 == 0;
        folder.write(name + '/' + std::to_string(i) + (is_png ? ".png" : ".jpg"),
                     is_png ? png_of(4, 4, 1, pixels) : jpeg_of(4, 4, 1, pixels));
      }
    }
  }
  static words train(const std::string& data, const words& more) {
    return "train --model softmax --batch 8 --epochs 60 --lr 0.5 --quiet --data"_w + data + more;
  }

  const std::string sky = path("sky"), model = path("sky.npz");
};

TEST_F(Pictures, AreLearntAndPredicted) {
  draw();
  EXPECT_THAT(done(train(sky, "--test-fraction 0.25 --save"_w + model)).out, HasSubstr("1.0000"));
  EXPECT_THAT(done({"test", "--model-file", model, "--data", sky}).out,
              HasAll("40 samples", "accuracy      1.0000", "night"));
  EXPECT_THAT(done({"predict", "--model-file", model, "--data", sky}).out,
              HasAll("class,probability,day,night\nday,0.", "\nnight,0."));
}

/// The answers are those that the data set gets, with the names of the files before them.
TEST_F(Pictures, NeedNoLabelsToBePredicted) {
  draw();
  done(train(sky, {"--save", model}));
  const words predict = "predict --model-file"_w + model;
  const std::string csv = done(predict + "--picture-files" + path("sky/day") + path("sky/night")).out;
  const words lines = lines_of(csv);
  ASSERT_THAT(lines, SizeIs(41));
  EXPECT_EQ(lines[0], "file,class,probability,day,night");
  std::string without_names = lines[0].substr(5) + '\n';
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], StartsWith(path("sky/")));
    without_names += lines[i].substr(lines[i].find(',') + 1) + '\n';
  }
  EXPECT_EQ(without_names, done(predict + "--data" + sky).out);
  const json answer =
      json::parse(done(predict + "--format jsonl --picture-files"_w + path("sky/night/3.jpg")).out);
  EXPECT_EQ(answer["file"], path("sky/night/3.jpg"));
  EXPECT_EQ(answer["class"], "night");
}

TEST_F(Pictures, WithoutLabelsAreRefusedByName) {
  draw();
  done(train(sky, {"--save", model}));
  folder.write("wide.png", png_of(5, 4, 1, std::string(20, 'a')));
  folder.write("cut.jpg", jpeg_of(4, 4, 1, std::string(16, 'a')).substr(0, 300));
  for (const auto& [name, why] :
       {std::pair<std::string, std::string>{"wide.png",
                                            ": expected 4x4 pixels, as the model reads them, found 5x4"},
        {"cut.jpg", ": the picture is damaged"},
        {"none.png", ": cannot be read: No such file"},
        {"sky", ": expected pictures *.png or *.jpg in the folder, found none"}}) {
    tool p({"predict", "--model-file", model, "--picture-files", path("sky/day/0.png"), path(name)});
    EXPECT_EQ(p.code(), 2);
    EXPECT_EQ(p.out(), "") << "no answer before all of a group are decoded";
    EXPECT_THAT(p.err(), HasSubstr(name + why));
  }
}

TEST_F(Pictures, AreRefusedByTheNameOfTheFile) {
  draw();
  folder.write("sky/night/7.jpg", "gone");
  expect_error(train(sky, {}), "sky/night/7.jpg: expected a PNG or JPEG picture, found 'gone'");
}

TEST_F(Pictures, MayBeArraysOfNumpy) {
  std::vector<float> x, y;
  for (int i = 0; i < 40; ++i) {
    x.insert(x.end(), {i % 2 == 0 ? 1.0F : 0.0F, 0.5F});
    y.push_back(static_cast<float>(i % 2));
  }
  write_npz(path("xy.npz"), std::vector<array_to_store>{{"x", {40, 2}, x}, {"y", {40}, y}}, {});
  done(train(path("xy.npz"), "--task classification --save"_w + path("m.safetensors")));
  EXPECT_THAT(done({"test", "--model-file", path("m.safetensors"), "--data", path("xy.npz")}).out,
              HasAll("40 samples", "accuracy      1.0000"));
}

} // namespace
} // namespace mailgrad::testing
