#!/usr/bin/env python3
"""Makes libsvm.json: small libsvm files, and the rows that scikit-learn reads from them.

Made with Python 3.11.7, scikit-learn 1.9.1 and NumPy 2.4.6.

"numbers" are the dense rows of load_svmlight_files([train, test], dtype=float32), which reads both parts as wide as the
wider one; "labels" are the places of y among the sorted classes of the training part. A case with "refusal" is to be
refused by a line that begins so. What scikit-learn reads and we refuse, or read otherwise, says so in its name.
"""
import io
import sys

import numpy
import sklearn
from sklearn.datasets import dump_svmlight_file, load_svmlight_files

import golden_file
from golden_file import b64, gz

random = numpy.random.default_rng(45)
cases = []

TRAIN, TEST = b"+1 1:0.5 3:2\n-1 2:-1.5\n", b"-1 1:4 2:1\n"


def part(x, y, classes):
    numbers = numpy.asarray(x.todense(), dtype=numpy.float32)
    return {"dims": [numbers.shape[1]], "numbers": numbers.ravel().tolist(), "labels": [classes.index(int(v)) for v in y]}


def files_of(train, test, names):
    return {n: b64(gz(data) if n.lower().endswith(".gz") else data) for n, data in zip(names, (train, test))}


def add(name, train, test=TEST, names=("rows", "rows.t"), opened="rows", features=None, oracle=None):
    """`oracle`: what scikit-learn is given in place of the two files, where it cannot read ours."""
    given = oracle or (train, test)
    x, y, xt, yt = load_svmlight_files([io.BytesIO(g) for g in given], n_features=features, dtype=numpy.float32)
    classes = sorted({int(v) for v in y})
    case = {"name": name, "files": files_of(train, test, names), "open": opened, "train": part(x, y, classes),
            "test": part(xt, yt, classes), "class_names": [str(c) for c in classes]}
    cases.append(case | ({"options": {"features": features}} if features else {}))


def refused(name, words, train, test=TEST, names=("rows", "rows.t"), opened="rows", features=None):
    case = {"name": name, "files": files_of(train, test, names), "open": opened, "refusal": words}
    cases.append(case | ({"options": {"features": features}} if features else {}))


def dumped(zero_based, comment=None, query_id=None, rows=6):
    x = random.standard_normal((rows, 5)) * (random.random((rows, 5)) < 0.6)
    x[0, 0] = x[1, 4] = 1  # so that both ends are seen
    x[2] = 0
    out = io.BytesIO()
    dump_svmlight_file(x, numpy.arange(rows) % 3, out, zero_based=zero_based, comment=comment, query_id=query_id)
    return out.getvalue()


def add_forms():
    add("labels with signs", TRAIN)
    add("rows without an entry", b"1\n2 3:1\n1\n", b"2\n1 1:1\n")
    add("blanks at the ends of lines", b"1 1:1  \n2 2:1 \t\n", b"1 2:3   ")
    add("blanks before labels", b"  1 1:1\n\t2 2:1\n", b" 1 2:3\n")
    add("tabs", b"1\t1:1\t2:2\n2\t\t2:1\n", b"1\t2:3\n")
    add("ends of lines of Windows", b"1 1:1\r\n2 2:1 \r\n", b"1 2:3\r\n")
    add("no end of the last line", b"1 1:1\n2 2:1", b"1 2:3")
    add("blank lines at the end", b"1 1:1\n2 2:1\n\n\n", b"1 2:3\n\n")
    add("a comment behind a row", b"1 1:1 # one\n2 2:1# two\n", b"1 2:3 #!docid = 7\n")
    add("lines of a comment alone", b"# made\n#\n1 1:1\n  # between\n2 2:1\n# end\n", b"#\n1 2:3\n")
    add("a comment that looks like an entry", b"1 1:1 # 9:9\n2 2:1\n", b"1 2:3 # 4\n")
    add("a comment with commas first", b"# columns: 1,2,3; 4 rows\n1 1:1\n2 2:1\n", b"1 2:3\n")
    add("a byte-order mark, which scikit-learn does not read", b"\xef\xbb\xbf1 1:1\n2 2:1\n", b"1 2:3\n", oracle=(b"1 1:1\n2 2:1\n", b"1 2:3\n"))
    add("queries", b"2 qid:1 1:1\n0 qid:1 2:3\n1 qid:2\n", b"1 qid:3 2:1\n")
    add("numbers in every form", b"1 1:.5 2:5. 3:1e3 4:-2.5E-2 5:007 6:0.1\n2 1:0 2:-0.0\n", b"1 1:1e-40 3:3.4e38 6:16777217\n")
    add("labels in every form", b"1.0 1:1\n+2 2:1\n-3e0 1:2\n0 1:1\n", b"2.0 2:3\n-3 1:1\n")
    add("labels that are far apart", b"100 1:1\n-7 2:1\n3 1:1\n", b"3 2:3\n")
    add("an entry of zero is an entry", b"1 1:0 4:0\n2 2:1\n", b"1 4:1\n")
    add("numbers of columns with zeros before", b"1 01:1 002:4\n2 2:1\n", b"1 2:3\n")
    add("packed", TRAIN, names=("rows.gz", "rows.t.gz"), opened="rows.gz")
    add("a pair called train and test", TRAIN, names=("rows.train", "rows.test"), opened="")
    add("a pair in capitals", TRAIN, names=("ROWS.TRAIN", "ROWS.TEST"), opened="")
    add("a suffix in capitals", TRAIN, names=("ROWS.LIBSVM", "ROWS.LIBSVM.T"), opened="ROWS.LIBSVM")
    add("packed, in capitals", TRAIN, names=("A-VECT.GZ", "A-VECT.T.GZ"), opened="A-VECT.GZ")


def add_widths():
    add("a narrower test part", b"1 1:1 6:1\n2 2:1\n", b"1 1:1\n")
    wider = b"1 1:1\n2 2:1\n", b"1 2:1 7:3\n"
    add("a wider test part, with its width", *wider, features=7)
    add("both parts wider than they show", *wider, features=12)
    refused("a wider test part, which scikit-learn reads", "rows.t: line 1: expected an index from 1 to 2, found '7'; --features N", *wider)
    refused("a test part wider than the width", "rows.t: line 1: expected an index from 1 to 6, found '7'", *wider, features=6)
    refused("a training part wider than the width", "rows: line 1: expected an index from 1 to 2, found '3'", TRAIN, features=2)


def add_zero_based():
    for zero_based in (False, True):
        name = "from zero" if zero_based else "from one"
        add(f"dumped {name}", dumped(zero_based), dumped(zero_based))
        add(f"dumped {name} with a comment", dumped(zero_based, comment="a set\nof 2 lines"), dumped(zero_based))
        add(f"dumped {name} with queries", dumped(zero_based, query_id=numpy.arange(6)), dumped(zero_based))
        add(f"dumped {name}, with its width", dumped(zero_based), dumped(zero_based), features=9)
    add("from zero, as the training part alone shows", b"1 0:1 3:1\n2 1:1\n", b"1 2:3 3:1\n")
    add("from zero, as the test part alone shows", b"1 1:1 3:1\n2 2:1\n", b"1 0:3 3:1\n")
    add("from zero, with a width that fits", b"1 0:1 3:1\n2 1:1\n", b"1 2:3\n", features=4)
    refused("from zero, with a width that would fit from one", "rows: line 1: expected an index from 0 to 2, found '3'", b"1 0:1 3:1\n2 1:1\n", features=3)
    add("no column zero in either part", b"1 1:1\n2 2:1\n", b"1 2:3\n")


def add_refusals():
    def words(line, what):
        return f"rows: line {line}: {what}"
    refused("columns out of order", words(2, "expected an index above 3, found 1"), b"1 1:1\n2 3:1 1:1\n")
    refused("a column twice", words(1, "expected an index above 2, found 2"), b"1 2:1 2:1\n")
    refused("column zero twice", words(1, "expected an index above 0, found 0"), b"1 0:1 0:1\n")
    refused("several labels", "rows.libsvm: line 1: expected a whole number as label, found '1,2'", b"1,2 1:1\n",
            names=("rows.libsvm", "rows.libsvm.t"), opened="rows.libsvm")
    refused("labels that are fractions, which scikit-learn reads", words(2, "expected a label that is a whole number"), b"1 1:1\n2.5 2:1\n")
    refused("a value that is not a number, which scikit-learn reads", words(1, "expected a finite number at index 1, found 'nan'"), b"1 1:nan\n")
    refused("an infinite value, which scikit-learn reads", words(1, "expected a finite number at index 2, found 'inf'"), b"1 2:inf\n")
    refused("a value beyond floats", words(1, "expected a finite number at index 1, found '1e39'"), b"1 1:1e39\n")
    refused("a blank line before a row, which scikit-learn reads", words(2, "expected a row, found an empty line"), b"1 1:1\n\n2 2:1\n")
    refused("a negative column", words(2, "expected index:value, found '-1:1'"), b"1 1:1\n1 -1:1\n")
    refused("an entry without its number", words(2, "expected index:value, found '3'"), b"1 1:1\n1 3\n")
    refused("a blank behind the colon", words(2, "expected a finite number at index 3, found ''"), b"1 1:1\n1 3: 4\n")
    refused("a label that training lacks", "rows.t: line 1: expected one of the 2 labels '1', '2', found '9'", b"1 1:1\n2 2:1\n", b"9 1:1\n")
    refused("a query behind an entry", words(1, "expected index:value, found 'qid:3'"), b"1 1:1 qid:3\n")
    refused("a packed file that is cut", "rows: ", gz(TRAIN)[:-9])


for adds in (add_forms, add_widths, add_zero_based, add_refusals):
    adds()
versions = f"make_libsvm.py with Python {sys.version.split()[0]}, scikit-learn {sklearn.__version__}, NumPy {numpy.__version__}"
golden_file.write("libsvm", versions, cases)
