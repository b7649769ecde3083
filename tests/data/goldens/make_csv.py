#!/usr/bin/env python3
"""Writes csv.json: small CSV files, and what pandas reads in them.

Each case has the bytes of a file, the options by which Mailgrad reads it, and what it should find: the columns of
features as numbers or words, and the labels as they are written or the numbers to predict. pandas reads each file
with the arguments that fit it, so that the values are not ours. A case that has no sense holds the beginning of the
refusal instead.

    python3 make_csv.py > csv.json
"""
import base64
import io
import json
import random
import sys

import pandas

CASES = []


def content(data):
    try:
        text = data.decode("ascii")
        return {"text": text}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def as_bytes(text, encoding="utf-8"):
    return text if isinstance(text, bytes) else text.encode(encoding)


def plain(value):
    return None if pandas.isna(value) else float(value)


def read(data, label, words, numeric_label, pandas_options):
    """Columns of features, labels as texts or targets, and the names in the header."""
    frame = pandas.read_csv(io.BytesIO(data), **pandas_options)
    texts = pandas.read_csv(io.BytesIO(data), **{**pandas_options, "dtype": str})
    at = range(frame.shape[1])[label] if isinstance(label, int) else list(frame.columns).index(label)
    columns = []
    for i in range(frame.shape[1]):
        if i == at:
            continue
        column = frame.iloc[:, i]
        if i in words or not pandas.api.types.is_numeric_dtype(column) or column.dtype == bool:
            values = texts.iloc[:, i]
            columns.append({"words": [None if pandas.isna(v) else v.strip() for v in values]})
        else:
            columns.append({"numbers": [plain(v) for v in column]})
    answers = frame.iloc[:, at] if numeric_label else texts.iloc[:, at]
    return columns, [plain(v) if numeric_label else (None if pandas.isna(v) else v.strip()) for v in answers], at


def dropped(columns, answers):
    rows = [i for i in range(len(answers))
            if answers[i] is not None and all(next(iter(c.values()))[i] is not None for c in columns)]
    return ([{kind: [values[i] for i in rows] for kind, values in c.items()} for c in columns],
            [answers[i] for i in rows])


def case(name, data, label=-1, options=None, encoding="utf-8", words=(), numbers=False, remark=None, **pandas_options):
    data = as_bytes(data, encoding)
    pandas_options.setdefault("encoding", encoding)
    pandas_options.setdefault("skipinitialspace", True)
    columns, answers, at = read(data, label, words, numbers, pandas_options)
    if (options or {}).get("missing") == "drop":
        columns, answers = dropped(columns, answers)
    CASES.append({"name": name, "file": content(data), "options": options or {}, "label": at, "columns": columns,
                  ("targets" if numbers else "labels"): answers, **({"remark": remark} if remark else {})})


def refused(name, data, says, options=None, encoding="utf-8"):
    CASES.append({"name": name, "file": content(as_bytes(data, encoding)), "options": options or {}, "refused": says})


TABLE = "size,weight,kind\n1,2.5,a\n-3,0.25,b\n40,1e3,a\n"

# Delimiters
for what, sign in {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}.items():
    case(f"delimiter: {what}", TABLE.replace(",", sign), sep=sign)
    case(f"delimiter: {what}, without a header", TABLE.partition("\n")[2].replace(",", sign), sep=sign, header=None)
case("delimiter: stated as a colon", TABLE.replace(",", ":"), options={"delimiter": ":"}, sep=":")
case("delimiter: a first line of a spreadsheet", "sep=;\n" + TABLE.replace(",", ";"), sep=";", skiprows=1)
case("delimiter: commas in words between semicolons", "a;b;kind\nx, y;1;u\nz, w;2;v\nx, y;3;u\n", sep=";")
case("delimiter: semicolons in words between commas", "a,b,kind\nx; y,1,u\nz; w,2,v\nx; y,3,u\n")
case("delimiter: one at the end of each line", "a,b,kind,\n1,2,x,\n3,4,y,\n", label=2, usecols=[0, 1, 2])
case("delimiter: blanks around fields", " 1 , 2.5 , a \n 3 , 4 , b \n", header=None)

# Decimal signs
COMMAS = "size;weight;kind\n1,5;-2,25;a\n3;0,125;b\n40;1,5e3;a\n"
case("decimal comma: semicolons", COMMAS, sep=";", decimal=",")
case("decimal comma: tabs", COMMAS.replace(";", "\t"), sep="\t", decimal=",")
case("decimal comma: bars", COMMAS.replace(";", "|"), sep="|", decimal=",")
case("decimal comma: without a header", COMMAS.partition("\n")[2], sep=";", decimal=",", header=None)
case("decimal comma: every field", "1,5;2,5;3,25\n4,5;5,5;6,5\n", sep=";", decimal=",", header=None, numbers=True)
case("decimal comma: in quotes between commas", 'a,b,kind\n"1,5","2,25",x\n"3,75",4,y\n', decimal=",",
     remark="column 'a': '1,5' is read as one number, but may be a list")
case("decimal comma: nothing in front", "a;b;kind\n,5;-,25;x\n1,5;2;y\n", sep=";", decimal=",")
case("decimal comma: three places after a nought", "a;kind\n0,125;x\n0,250;y\n1,234;x\n", sep=";", decimal=",")
case("decimal comma: a number to predict", "a;price\n1,5;10,25\n2,5;20,75\n3;7,5\n", sep=";", decimal=",", numbers=True)
case("decimal comma: whole file in quotes", '"a";"b";"kind"\n"1,5";"2,5";"x"\n"3,5";"4,5";"y"\n', sep=";", decimal=",")
case("decimal comma: one column and no other shows the sign", "a;b;kind\n1,234;0,5;x\n2,345;1,5;y\n", sep=";", decimal=",")
case("decimal comma: likely by the semicolon", "a;kind\n1,234;x\n5,678;y\n", sep=";", decimal=",",
     remark="column 'a': '1,234' is read as 1.234, but may have thousands")
case("decimal point: likely by the quotes", 'a,kind\n"1,234",x\n"5,678",y\n', thousands=",",
     remark="column 'a': '1,234' is read as 1234, but may have a fraction")
case("decimal point: three places", "a,kind\n1.234,x\n5.678,y\n")
case("decimal point: between semicolons", "a;b;kind\n1.5;2;x\n3.25;4;y\n", sep=";")
refused("decimal signs: both in one column", "a;b;kind\n1,5;1;x\n2.5;2;y\n",
        "x.csv: expected one decimal sign in column 'a', found '2.5' and '1,5'")

# Thousands
case("thousands: commas", 'a,b,kind\n"1,234.5",1,x\n"12,345,678.25",2,y\n999,3,x\n', thousands=",")
case("thousands: commas without fractions", 'a,b,kind\n"1,234,567",1,x\n"12,345",2,y\n999,3,x\n', thousands=",")
case("thousands: commas, as another column shows", 'a,b,kind\n"1,234",0.5,x\n"12,345",1.5,y\n', thousands=",")
case("thousands: points", "a;b;kind\n1.234,5;1;x\n12.345.678,25;2;y\n999;3;x\n", sep=";", decimal=",", thousands=".")
case("thousands: points, as another column shows", "a;b;kind\n1.234;0,5;x\n12.345;1,5;y\n", sep=";", decimal=",", thousands=".",
     remark="column 'a': '1.234' is read as 1234, but may have a fraction; --decimal")
case("thousands: blanks", "a,b,kind\n1 234,1,x\n12 345 678.5,2,y\n999,3,x\n", thousands=" ")
case("thousands: blanks and decimal commas", "a;b;kind\n1 234,5;1;x\n12 345;2;y\n", sep=";", decimal=",", thousands=" ")
case("thousands: blanks that do not break a line", "a;kind\n1\u00a0234,5;x\n12\u00a0345,25;y\n", sep=";", decimal=",",
     thousands="\u00a0", engine="python")
case("thousands: narrow blanks", "a;kind\n1\u202f234,5;x\n12\u202f345,25;y\n", sep=";", decimal=",",
     thousands="\u202f", engine="python")
case("thousands: apostrophes", "a,kind\n1'234.5,x\n12'345.25,y\n", thousands="'")
case("thousands: a number to predict", 'a,price\n1,"1,234.5"\n2,"2,345.75"\n3,"10,000.25"\n', thousands=",", numbers=True)
refused("thousands: a group of two digits", 'a,b,kind\n1.5,1,x\n"1,23.4",2,y\n2.5,3,x\n3.5,1,y\n',
        "x.csv: line 3: expected a finite number in column 1, found '1,23.4'")

# Signs of numbers
case("numbers: signs and exponents", "a,b,kind\n+1,-0,x\n-1.5e-3,2E5,y\n.5,5.,x\n")
case("numbers: a minus of typesetters", "a,kind\n\u22121.5,x\n2,y\n",
     converters={"a": lambda field: float(field.replace("\u2212", "-"))})
case("numbers: beyond those of words", "a,b,kind\n16777217,1e-40,x\n3e38,0.1,y\n")
refused("numbers: infinity", "a,kind\n1,x\ninf,y\n2,x\n", "x.csv: line 3: expected a finite number in column 1, found 'inf'")
refused("numbers: beyond float32", "a,kind\n1,x\n1e39,y\n2,x\n", "x.csv: line 3: expected a finite number in column 1")
refused("numbers: a word among them", "a,kind\n1,x\nabc,y\n2,x\n", "x.csv: line 3: expected a finite number in column 1, found 'abc'")
refused("numbers: the first one is a word", "a,b,kind\n1,n.d.,x\n2,5,y\n3,6,x\n",
        "x.csv: line 2: expected a finite number in column 2, found 'n.d.'")
refused("words: a number among them", "a,b,kind\n1,red,x\n2,5,y\n3,blue,x\n", "x.csv: line 3: expected a word, as in the rows before, in column 2, found '5'; --categories")

# Encodings
WORDS = "ort;gr\u00f6\u00dfe;art\nM\u00fcnchen;1,5;gro\u00df\nK\u00f6ln;2,5;klein\nM\u00fcnchen;3,5;gro\u00df\n"
for encoding in ("utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16-le", "utf-16-be"):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    case(f"encoding: {encoding}", mark + WORDS.encode(encoding), sep=";", decimal=",",
         encoding="utf-16" if mark else encoding)
    case(f"encoding: {encoding}, Windows line ends", mark + WORDS.replace("\n", "\r\n").encode(encoding), sep=";",
         decimal=",", encoding="utf-16" if mark else encoding)
for encoding in ("utf-16-le", "utf-16-be"):
    case(f"encoding: {encoding} without a mark", WORDS.encode(encoding), sep=";", decimal=",", encoding=encoding)
case("encoding: what Windows-1252 has beyond Latin-1", "preis;art\n1;\u20ac\n2;\u201ex\u201c\n3;\u20ac\n".encode("cp1252"),
     sep=";", encoding="cp1252")
case("encoding: letters beyond 16 bits in UTF-16", b"\xff\xfe" + "a,kind\n1,\U0001f339\n2,\U0001f337\n".encode("utf-16-le"),
     encoding="utf-16")
refused("encoding: half a character of UTF-16", b"\xff\xfe" + "a,b\n1,x\n2,y".encode("utf-16-le") + b"\x00", "x.csv: line")
refused("encoding: a character 0", "a,b\n1,x\0\n2,y\n", "x.csv: line 2: expected text, found a character 0")

# Lines
for what, end in {"Windows": "\r\n", "old Macintosh": "\r"}.items():
    case(f"lines: {what} ends", TABLE.replace("\n", end))
case("lines: no end of the last one", TABLE.rstrip("\n"))
case("lines: Windows ends and none at the last", TABLE.replace("\n", "\r\n").rstrip("\r\n"))
case("lines: empty ones", "\n" + TABLE.replace("\n", "\n\n") + "\n")
case("lines: empty ones with Windows ends", TABLE.replace("\n", "\r\n\r\n"))
case("lines: blanks alone", TABLE.replace("\n-3", "\n   \n-3"), skip_blank_lines=True)
case("lines: many rows", "a,b,kind\n" + "".join(f"{i * 7 % 31},{i * i % 17 / 4},{'xyz'[i % 3]}\n" for i in range(150)))
case("lines: many columns", ",".join(f"c{i}" for i in range(120)) + ",kind\n" + "".join(
    ",".join(str((i * r) % 97 / 8) for i in range(120)) + f",{'uv'[r % 2]}\n" for r in range(4)))
refused("lines: fewer fields", "a,b,kind\n1,2,x\n3,y\n", "x.csv: line 3: expected 3 columns, found 2")
refused("lines: more fields", "a,b,kind\n1,2,x\n3,4,5,y\n", "x.csv: line 3: expected 3 columns, found 4")
refused("lines: an empty file", "", "x.csv: expected rows of numbers, found an empty file")
refused("lines: a header alone", "a,b,kind\n", "x.csv: line 1: expected rows after the header, found the end")
refused("lines: one column", "a\n1\n2\n", "x.csv: line 1: expected a label and numbers between commas, found 'a'")

# Quotes
case("quotes: delimiters in them", 'a,kind\n1,"x, y"\n2,"z, w"\n3,"x, y"\n')
case("quotes: quotes in them", 'a,kind\n1,"say ""yes"""\n2,no\n3,"say ""yes"""\n')
case("quotes: an end of line in them", 'a,note,kind\n1,"two\nlines",x\n2,one,y\n3,"two\nlines",x\n')
case("quotes: Windows ends of lines in them", 'a,note,kind\r\n1,"two\nlines",x\r\n2,one,y\r\n'.replace("two\n", "two\r\n"),
     words=(1,), converters={"note": lambda s: s.replace("\r\n", "\n")})
case("quotes: an empty line in them", 'a,note,kind\n1,"two\n\nlines",x\n2,one,y\n3,one,x\n')
case("quotes: a comment in them", 'a,note,kind\n1,"two\n# lines",x\n2,one,y\n3,one,x\n')
case("quotes: around every field", '"a","b","kind"\n"1","2.5","x"\n"3","4.5","y"\n')
case("quotes: within a field", 'a,size,kind\n1,5" pipe,x\n2,3" pipe,y\n3,5" pipe,x\n')
case("quotes: a name of several lines", '"a\nb",c,kind\n1,2,x\n3,4,y\n', label=2)
refused("quotes: open at the end", 'a,kind\n1,"x\n2,y\n', "x.csv: line 2: expected double quotes around the whole of a field")
refused("quotes: text behind them", 'a,kind\n1,"x"y\n2,y\n', "x.csv: line 2: expected double quotes around the whole of a field")

# Comments
case("comments: before the header", "# made by hand\n# in a day, or two\n" + TABLE, comment="#")
case("comments: between rows", TABLE.replace("\n-3", "\n# -1,2\n-3"), comment="#")
refused("comments: one that has the fields of a row is a row", TABLE.replace("\n-3", "\n# -1,2,b\n-3"),
        "x.csv: line 3: expected a finite number in column 1, found '# -1'")
case("comments: before rows without a header", "# made by hand\n1,2.5,a\n3,4,b\n", comment="#", header=None)
case("comments: with the names, as NumPy writes them", "# a,b,kind\n1,2.5,3.5\n3,4,4.5\n", numbers=True, header=0)
case("comments: none, but colours", "colour,a,kind\n#ff0000,1,x\n#00ff00,2,y\n#ff0000,3,x\n")
case("comments: none, but colours without a header", "#ff0000,1,x\n#00ff00,2,y\n#ff0000,3,x\n", header=None)
case("comments: none, but a missing value", "a,b,kind\n#N/A,1,x\n2,2,y\n3,3,x\n", options={"missing": "drop"})
refused("comments: nothing else", "# a\n# b\n", "x.csv: line 1: expected a label")

# Missing values
for word in ("", "?", "NA", "na", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>"):
    case(f"missing: a number is '{word}'", f"a,b,kind\n1,2,x\n3,{word},y\n5,6,x\n", options={"missing": "drop"},
         na_values=["?", "na", "NULL"])
    case(f"missing: a label is '{word}'", f"a,b,kind\n1,2,x\n3,4,{word}\n5,6,y\n", options={"missing": "drop"},
         na_values=["?", "na", "NULL"])
    refused(f"missing: a label is '{word}', and nothing says what becomes of it", f"a,b,kind\n1,2,x\n3,4,{word}\n5,6,y\n",
            f"x.csv: line 3: expected a label that is a whole number or a word, found '{word}'; --missing drop")
case("missing: a number in the first row", "a,b,kind\n?,2,x\n3,4,y\n5,6,x\n", options={"missing": "drop"}, na_values=["?"])
case("missing: a word", "a,b,kind\nred,2,x\n?,4,y\nblue,6,x\n", options={"missing": "drop"}, na_values=["?"])
case("missing: a number to predict", "a,b\n1,2.5\n3,\n5,6.5\n", options={"missing": "drop"}, numbers=True)
case("missing: rows of nothing at the end", "a,b,kind\n1,2,x\n3,4,y\n,,\n,,\n", options={"missing": "drop"})
case("missing: all of an empty column's header", "a,,kind\n1,5,x\n3,6,y\n")
refused("missing: a number", "a,b,kind\n1,2,x\n3,?,y\n", "x.csv: line 3: expected a finite number in column 2, found '?'; --missing drop or mean")
refused("missing: a label with means", "a,b,kind\n1,2,x\n3,4,?\n", "x.csv: line 3: expected a label", options={"missing": "mean"})
refused("missing: a target with means", "a,b\n1,2.5\n3,NA\n4,2.25\n", "x.csv: line 3: expected a finite number in column 2, found 'NA'; --missing drop", options={"missing": "mean"})
refused("missing: all of a column", "a,b,kind\n1,,x\n3,,y\n", "x.csv: expected a value in column 'b', found none in any row", options={"missing": "mean"})

# Headers
case("header: of numbers and a name", "0,1,2,target\n5.1,3.5,1.4,0\n4.9,3.0,1.5,1\n6.2,2.9,4.3,0\n",
     remark="the first line, '0', '1', '2', 'target', is taken for a header")
case("header: of numbers and a name over words", "0,1,2,target\n5.1,3.5,1.4,a\n4.9,3.0,1.5,b\n6.2,2.9,4.3,a\n",
     remark="is taken for a header")
case("header: of numbers alone", "0,1,2,3\n5.1,3.5,1.4,0\n4.9,3.0,1.5,1\n6.2,2.9,4.3,0\n", remark="is taken for a header")
case("header: with the row numbers of pandas", ",a,b,kind\n10,1,2,x\n11,3,4,y\n12,5,6,x\n")
case("header: with the name Na", "Na,K,kind\n1.5,2,x\n2.5,3,y\n3.5,4,x\n")
case("header: with the name Na over words", "Na,kind\n1,x\n2,y\n3,x\n")
case("header: years, as one name stands over numbers", "2019,2020,total\n1,2,30.5\n3,4,40.5\n5,1,50.25\n", numbers=True, remark="is taken for a header")
case("header: two names are the same", "a,a,kind\n1,2,x\n3,4,y\n")
case("header: words over words", "colour,form,kind\nred,round,x\nblue,flat,y\nred,flat,x\n")
case("header: none, as a word of it stands below", "red,round,x\nblue,flat,y\nred,flat,x\n", header=None)
case("header: none, though no two words are the same", "red,s,x\nblue,m,y\ngreen,l,x\n", header=None)
case("header: none, as it has a fraction", "5.1,3.5,a\n4.9,3.0,b\n6.2,2.9,a\n", header=None)
case("header: asked for", "1,2,0\n3,4,1\n5,6,0\n", options={"header": "yes"}, header=0)
case("header: refused", "a,b,x\nc,d,y\na,d,x\n", options={"header": "no"}, header=None)
case("header: a name that is asked for", "2019,kind\n1,0\n2,1\n3,0\n", options={"label": "kind"}, label="kind")
case("header: none, a first row with a missing value", "5,NA,1\n4,2,0\n3,7,1\n", options={"missing": "drop"}, header=None)
case("header: a sample that counts", "1,2,3\n4,5,6\n7,8,9\n1,2,3\n", header=None)

# Labels
case("label: in the middle, by its name in the header", "a,target,b\n1,x,2\n3,y,4\n5,x,6\n", label=1)
case("label: in front, by its name", "Class,a,b\n3,1,2\n4,4,5\n3,6,7\n", label=0)
case("label: y at the end", "x,y\n1,0\n2,1\n3,0\n")
case("label: y among coordinates is none", "x,y,z\n1,2,0\n2,3,1\n3,4,0\n", label=2)
case("label: words in front of numbers", "T,2,8\nI,5,12\nT,1,1\n", label=0, header=None)
case("label: names in front of numbers are none", "".join(f"name{i},{i % 7},{i % 2}\n" for i in range(12)), header=None,
     remark="column 1: another word in each row")
case("label: by its number", "1,x,7\n2,y,8\n3,x,9\n", label=1, options={"label": "2"}, header=None)
case("label: the first is asked for", "7,1,2\n8,3,4\n7,5,6\n", label=0, options={"label": "first"}, header=None)
case("label: codes with leading zeros", "a,code\n1,010\n2,10\n3,010\n4,10\n")
case("label: codes with leading zeros alone", "a,code\n1,007\n2,008\n3,007\n4,08\n")
case("label: codes with exponents", "a,code\n1,1E2\n2,100\n3,1E2\n4,100\n")
case("label: codes of many digits", "a,code\n1,12345678901234567890\n2,12345678901234567891\n3,12345678901234567890\n")
case("label: numbers below zero", "a,kind\n1,-1\n2,1\n3,-1\n")
case("label: signs", "a,kind\n1,+1\n2,-1\n3,+1\n")
case("label: whole numbers with a point", "a,kind\n1,1.0\n2,0.0\n3,1.0\n")
case("label: words and numbers", "a,kind\n1,1\n2,one\n3,1\n4,one\n")
case("label: truth values", "a,kind\n1,True\n2,False\n3,True\n")
case("label: blanks in words", "a,kind\n1,very good\n2,not so good\n3,very good\n")
case("label: two names that it may have", "class,a,target\n1,2,0\n0,4,1\n1,6,0\n", label=0, remark="may each be the label")
refused("label: a column that is not there", "a,b\n1,2\n3,4\n", "x.csv: line 1: expected a column called 'c' for --label", options={"label": "c"})
refused("label: one that is left out", "a,b\n1,2\n3,4\n", "x.csv: line 1: column 2 holds the label", options={"left_out": ["b"]})
refused("label: a fraction among classes", "a,kind\n" + "".join(f"{i * 3 % 7},{i % 2}\n" for i in range(30)) + "5,0.5\n",
        "x.csv: line 32: expected a label that is a whole number or a word, found '0.5'; a number to predict")

# Tasks
random.seed(1)
PRICES = [random.randrange(50, 500) * 1000 + random.randrange(1000) for _ in range(60)]
case("task: fractions are predicted", "a,b\n1,0.5\n2,1.25\n3,-7.5\n", numbers=True)
case("task: prices are predicted", "rooms,price\n" + "".join(f"{i * 5 % 7},{p}\n" for i, p in enumerate(PRICES)), numbers=True,
     remark="so a number is predicted; --task")
case("task: prices with decimal commas", "rooms;price\n" + "".join(f"{i * 5 % 7};{p},5\n" for i, p in enumerate(PRICES)),
     numbers=True, sep=";", decimal=",")
case("task: a few whole numbers are classes", "a,b\n" + "".join(f"{i * 3 % 7},{i % 9}\n" for i in range(40)))
case("task: classes with many samples each", "a,age\n" + "".join(f"{i * 3 % 7},{18 + i % 40}\n" for i in range(240)),
     remark="so they are taken for classes; --task")
case("task: classes are asked for", "a,age\n" + "".join(f"{i * 3 % 7},{18 + i % 40}\n" for i in range(60)), options={"task": "classes"})
case("task: numbers are asked for", "a,b\n" + "".join(f"{i * 3 % 7},{i % 3}\n" for i in range(12)), options={"task": "numbers"}, numbers=True)
case("task: codes are no numbers to predict", "a,code\n" + "".join(f"{i * 3 % 7},{1000 + i % 25:05d}\n" for i in range(50)))
refused("task: a name in each row", "a,name\n" + "".join(f"{i * 3 % 7},n{i}\n" for i in range(12)),
        "x.csv: expected a label, found that column 'name' has another value in each of 12 rows; --label")
refused("task: an identifier", "a,id\n" + "".join(f"{i * 3 % 7},{i + 100}\n" for i in range(30)),
        "x.csv: expected a label, found that column 'id' counts the rows, from 100; --label")
refused("task: a date", "a,day\n" + "".join(f"{i * 3 % 7},2020-01-{i % 28 + 1:02d}\n" for i in range(40)),
        "x.csv: expected a label, found that column 'day' holds dates or times, such as '2020-01-01'; --label")
refused("task: a clock", "a,time\n" + "".join(f"{i * 3 % 7},{1577836800 + i * i * 3600}\n" for i in range(30)),
        "x.csv: expected a label, found that column 'time' tells the time in seconds, from 1577836800; --label")

# Columns
case("columns: words become categories", "colour,a,kind\nred,1,x\nblue,2,y\nred,3,x\n")
case("columns: numbers that are categories", "code,a,kind\n10,1,x\n9,2,y\n10,3,x\n", options={"categories": ["code"]}, words=(0,))
case("columns: codes that are categories", "code,a,kind\n010,1,x\n10,2,y\n010,3,x\n", options={"categories": ["code"]}, words=(0,))
case("columns: dates are words", "day,a,kind\n1/2/2020,1,x\n2/3/2020,2,y\n1/2/2020,3,x\n", remark="column 'day': words that look like dates or times, such as '1/2/2020'")
case("columns: money is words", "price,a,kind\n$5,1,x\n$7,2,y\n$5,3,x\n", remark="column 'price': words that look like numbers, such as '$5'")
case("columns: shares are words", "share,a,kind\n5 %,1,x\n7 %,2,y\n5 %,3,x\n", remark="column 'share': words that look like numbers, such as '5 %'")
case("columns: row numbers", "id,a,kind\n" + "".join(f"{i},{i * 5 % 7},{'xy'[i % 2]}\n" for i in range(20)), remark="column 'id': numbers that count the rows; --leave-out")
case("columns: row numbers of pandas", ",a,kind\n" + "".join(f"{i},{i * 5 % 7},{'xy'[i % 2]}\n" for i in range(20)), remark="column 1: numbers that count the rows; --leave-out")
case("columns: truth values are words", "a,b,kind\nTrue,1,x\nFalse,2,y\nTrue,3,x\n")

made_by = f"make_csv.py, Python {sys.version.split()[0]}, pandas {pandas.__version__}"
print('{"made_by": ' + json.dumps(made_by) + ',\n"cases": [\n' + ",\n".join(map(json.dumps, CASES)) + "\n]}")
