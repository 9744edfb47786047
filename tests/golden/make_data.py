"""Files of data, samplers, splits, loaders and scaling, in the format of docs/src/golden-cases.md.

Run:     python tests/golden/make_data.py
Needs:   PyTorch 2.15.0 on the CPU, torchvision, Pillow, scikit-learn 1.9, NumPy
Writes:  training/data.jsonl.gz and arrays.npz beside this file

What a file holds says the reader that its format comes from: Python's csv module, NumPy, Pillow with torchvision's ImageFolder. IDX
has no reader there; its files are written here, byte by byte, of arrays that are known. Loaders, collation, padding and splits are
PyTorch's, scaling, folds and class numbers scikit-learn's.
"""

import csv
import gzip
import io
import pathlib
import random
import struct
import tempfile
import warnings
import zipfile

import numpy as np
import torch
import torchvision
from PIL import Image
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import LabelEncoder, StandardScaler
from torch.utils import data

from training_lines import NAMES, draw_with, tensor, write_lines

warnings.filterwarnings("ignore")
rng = random.Random(15)
draw = lambda shape, low=-3.0, high=3.0: draw_with(rng, shape, low, high)
lines = []


def case(name, tags=(), **more):
    lines.append({"kind": "data", "id": len(lines), "name": name, "tags": list(tags), **more})


def refusal(f, *args, **more):
    """The words by which this is refused."""
    try:
        f(*args, **more)
    except Exception as error:
        return f"{type(error).__name__}: {error}".split("\n")[0]
    raise SystemExit(f"{f} of {args} is not refused")


def stored(**files):
    return {name.replace("__", "/").replace("_dot_", "."): content.hex() for name, content in files.items()}


# CSV

def parsed(kind, text):
    if "_" in text:
        raise ValueError(f"{text} is a number in Python's source alone")
    return kind(text)


PARSERS = {
    "f32": lambda text: torch.tensor(parsed(np.float32, text)),
    "f64": lambda text: torch.tensor(parsed(float, text), dtype=torch.float64),
    "i64": lambda text: torch.tensor(parsed(int, text)),
    "bool": lambda text: torch.tensor({"true": True, "false": False, "1": True, "0": False}[text.lower()]),
}


def csv_rows(content, delimiter):
    text = content.decode("utf-8-sig")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    if any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("rows of unequal lengths")
    return rows


def csv_columns(rows, names, wanted, dtype):
    places = [names.index(name) for name in wanted]
    cells = [[PARSERS[dtype](row[place].strip()) for place in places] for row in rows]
    kind = {v: k for k, v in NAMES.items()}[dtype]
    flat = [cell for row in cells for cell in row]
    return (torch.stack(flat) if flat else torch.empty(0)).to(kind).reshape(len(rows), len(places))


def csv_labels(rows, names, name):
    fields = [row[names.index(name)].strip() for row in rows]
    if "" in fields:
        raise ValueError("an empty field")
    encoder = LabelEncoder().fit(fields)
    return torch.tensor(encoder.transform(fields), dtype=torch.int64), list(encoder.classes_)


def table(content, asked, delimiter=",", header=True):
    content = content if isinstance(content, bytes) else content.encode()
    args = {"delimiter": delimiter, "header": header}
    more = {"args": args, "files": stored(table_dot_csv=content)}
    try:
        rows = csv_rows(content, delimiter)
    except (ValueError, csv.Error) as error:
        return case("csv", **more, error=str(error))
    names = [name.strip() for name in rows.pop(0)] if header else [str(i) for i in range(len(rows[0]))]
    answers = []
    for wanted, dtype in asked:
        answer = {"columns": wanted, "as": dtype}
        try:
            if dtype == "texts":
                answer["texts"] = [row[names.index(wanted[0])] for row in rows]
            elif dtype == "labels":
                numbers, classes = csv_labels(rows, names, wanted[0])
                answer |= {"tensor": tensor(numbers), "classes": classes}
            else:
                answer["tensor"] = tensor(csv_columns(rows, names, wanted, dtype))
        except (ValueError, KeyError) as error:
            answer["error"] = str(error)
        answers.append(answer)
    case("csv", **more, names=names, rows=len(rows), asked=answers)


def written_by_python(rows, **dialect):
    out = io.StringIO(newline="")
    csv.writer(out, **dialect).writerows(rows)
    return out.getvalue()


def tables():
    head = ["id", "width", "kind", "ok"]
    rows = [[i, round(rng.uniform(-50, 50), 3), rng.choice(["a", "b, or c", 'said "so"', "é"]), rng.choice(["true", "False"])] for i in range(9)]
    asked = [([name], dtype) for name in head for dtype in ["f32", "f64", "i64", "bool", "texts", "labels"]]
    asked += [(["width", "id"], "f64"), (["id", "id"], "i64"), (["nothing"], "f32"), (["nothing"], "texts"), (["width", "nothing"], "f32")]
    for delimiter in [",", ";", "\t", "|"]:
        for quoting in [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]:
            for end in ["\n", "\r\n"]:
                table(written_by_python([head, *rows], delimiter=delimiter, quoting=quoting, lineterminator=end), asked, delimiter)
    table(written_by_python(rows), [(["0", "1"], "f32"), (["2"], "labels"), (["id"], "f32")], header=False)
    numbers = ["0", "-0.0", "1e3", "-1E-3", "+7", "0.1", "3.4e38", "123456789", ".5", "5.", "1_0", "0x10", "1,5", "five", "", " 8 ", "NaN", "inf", "-Infinity", "9007199254740993", "-9223372036854775808", "9223372036854775808", "1.0", "1e999"]
    for text in numbers:
        table(written_by_python([["x", "y"], [text, 1]]), [(["x"], dtype) for dtype in ["f32", "f64", "i64"]])
    for text in ["true", "FALSE", "1", "0", "True", "false", "2", "yes", "t", "1.0", ""]:
        table(written_by_python([["x", "y"], [text, 1]]), [(["x"], "bool")])
    both = [(["x"], "f32"), (["y"], "texts")]
    table("\ufeffx,y\n1,a\n", both)
    table("x,y\n\n1,a\n\n\n2,b\n", both)
    table("x,y\n1,a", both)
    table("x,y\n", both)
    table('x,y\n1,"two\nlines"\n2,"a ""word"""\n', [*both, (["y"], "labels")])
    table(" x , y \n 1 , a \n", both[:1] + [(["y"], "labels")])
    table("x,y\n1\n", [])
    table("x,y\n1,2,3\n", [])
    table(b"x,y\n1,\xff\n", [])
    table("wörter,y\nja,1\nß,2\nZ,3\na,4\n", [(["wörter"], "labels"), (["wörter"], "texts")])


# IDX

IDX = {8: (">u1", "i64"), 9: (">i1", "i64"), 11: (">i2", "i64"), 12: (">i4", "i64"), 13: (">f4", "f32"), 14: (">f8", "f64")}


def idx_file(code, array):
    head = struct.pack(">BBBB", 0, 0, code, array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape)
    return head + array.astype(IDX[code][0]).tobytes()


def idx_files():
    kinds = {"i64": torch.int64, "f32": torch.float32, "f64": torch.float64, "bool": torch.bool}
    for code, (packed, natural) in IDX.items():
        for shape in [(), (5,), (3, 4), (2, 3, 2), (0, 4), (1, 1, 1, 2)]:
            if packed[1] == "f":
                array = np.array(draw(shape)).astype(packed)
            else:
                limits = np.iinfo(packed)
                array = np.array([rng.choice([limits.min, limits.max, rng.randint(limits.min, limits.max), 0]) for _ in range(int(np.prod(shape)))], dtype=packed).reshape(shape)
            content = idx_file(code, array)
            found = torch.from_numpy(array.astype(packed[1:]).astype({"i64": "i8", "f32": "f4", "f64": "f8"}[natural])).reshape(shape)
            case("idx", args={}, files=stored(numbers=content), tensor=tensor(found))
            packed_file = gzip.compress(content, mtime=0)
            case("idx", args={}, files=stored(numbers_dot_gz=packed_file), tensor=tensor(found))
            dtype = rng.choice(list(kinds))
            case("idx", args={"dtype": dtype}, files=stored(numbers=content), tensor=tensor(found.to(kinds[dtype])))
    whole = idx_file(8, np.arange(12).reshape(3, 4))
    bad = {
        "it is empty": b"",
        "its header is cut off": whole[:9],
        "its numbers are cut off": whole[:-1],
        "it goes on behind its end": whole + b"\0",
        "its first byte is not 0": b"\1" + whole[1:],
        "its second byte is not 0": b"\0\1" + whole[2:],
        "IDX has no type 10": whole[:2] + b"\x0a" + whole[3:],
        "IDX has no type 15": whole[:2] + b"\x0f" + whole[3:],
        "it announces more than there is": struct.pack(">BBBBII", 0, 0, 14, 2, 2**32 - 1, 2**32 - 1),
        "it is packed and cut off": gzip.compress(whole, mtime=0)[:-9],
        "it is a picture": b"\x89PNG\r\n\x1a\n",
    }
    for why, content in bad.items():
        case("idx", args={}, files=stored(numbers=content), error=why)


# NumPy's files


def npy_file(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def taken(array):
    kind = {"f": array.dtype, "b": "bool"}.get(array.dtype.kind, "int64")
    return torch.from_numpy(np.ascontiguousarray(array.astype(np.dtype(kind).newbyteorder("="))).reshape(array.shape))


def npy_files():
    for shape in [(), (4,), (2, 3), (0, 3), (2, 1, 3)]:
        values = np.array(draw(shape, -100.0, 100.0))
        for packed in ["<f4", ">f4", "<f8", ">f8", "|i1", "|u1", "<i2", ">u2", "<i4", ">i4", "<u4", "<i8", ">i8", "|b1"]:
            array = (np.abs(values) if packed[1] == "u" else values).astype(packed)
            for order in "CF":
                array = np.asarray(array, order=order)
                for version in [(1, 0), (2, 0), (3, 0)]:
                    if order == "C" and version != (1, 0) and packed != "<f4":
                        continue
                    case("npy", files=stored(array_dot_npy=npy_file(array, version)), tensor=tensor(taken(array)))
    matrix = np.arange(12, dtype="<i4").reshape(3, 4)
    for seen in [matrix[:, ::2], matrix[::-1], matrix.T, np.broadcast_to(matrix[0], (2, 4)), np.asfortranarray(matrix)]:
        case("npy", files=stored(array_dot_npy=npy_file(seen)), tensor=tensor(taken(seen)))
    whole = npy_file(matrix)
    for content in [b"", whole[:5], whole[:40], whole[:-1], b"\x93NUMPZ" + whole[6:], whole[:6] + b"\x09\x00" + whole[8:], whole.replace(b"shape", b"shope")]:
        case("npy", files=stored(array_dot_npy=content), error=refusal(lambda: np.load(io.BytesIO(content))))
    for what in [np.array([1j]), np.array(["text"]), np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f4")]), np.array([1.0], dtype="<f2")]:
        case("npy", files=stored(array_dot_npy=npy_file(what)), error=f"{what.dtype} is no type of tensors")


def archive(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    # The same bytes at every hour.
    again = io.BytesIO()
    with zipfile.ZipFile(out) as old, zipfile.ZipFile(again, "w") as new:
        for info in old.infolist():
            fresh = zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0))
            fresh.compress_type = info.compress_type
            new.writestr(fresh, old.read(info))
    return again.getvalue()


def npz_files():
    matrix = np.array([[1.5, -2.0, 0.25], [3.0, 1e10, -0.0]], dtype="float32")
    arrays = dict(
        matrix=matrix,
        fortran=np.asfortranarray(matrix.astype("float64")),
        big_endian=np.array([1, -2, 300], dtype=">i4"),
        truth=np.array([[True], [False]]),
        scalar=np.int64(7),
        empty=np.zeros((0, 4), dtype="uint8"),
    )
    tensors = {name: tensor(taken(np.asarray(array))) for name, array in arrays.items()}
    packed = archive(np.savez_compressed, **arrays)
    (pathlib.Path(__file__).parent / "arrays.npz").write_bytes(packed)
    for content in [packed, archive(np.savez, **arrays)]:
        case("npz", files=stored(arrays_dot_npz=content), tensors=tensors)
    case("npz", files=stored(arrays_dot_npz=archive(np.savez)), tensors={})
    whole = archive(np.savez, x=matrix)
    for content in [whole[:50], whole[:-8], b"no archive"]:
        case("npz", files=stored(arrays_dot_npz=content), error=refusal(lambda: np.load(io.BytesIO(content))["x"]))


# Images


def drawn_image(mode, width, height):
    bands = {"RGB": 3, "RGBA": 4, "L": 1, "LA": 2, "1": 1, "P": 1}[mode]
    if mode == "1":
        return Image.frombytes("L", (width, height), bytes(rng.choice([0, 255]) for _ in range(width * height))).convert("1")
    content = bytes(rng.randrange(256) for _ in range(width * height * bands))
    image = Image.frombytes(mode, (width, height), content)
    if mode == "P":
        image.putpalette([rng.randrange(256) for _ in range(768)])
    return image


def packed_image(image, kind, **more):
    out = io.BytesIO()
    image.save(out, kind, **more)
    return out.getvalue()


def folder_of(files, **transforms):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        found = torchvision.datasets.ImageFolder(folder, **transforms)
        return found.classes, [found[i] for i in range(len(found))]


def image_folders():
    to_tensor = torchvision.transforms.ToTensor()
    grey = torchvision.transforms.Compose([torchvision.transforms.Grayscale(), to_tensor])
    forms = [("RGB", "PNG", "a.png"), ("RGBA", "PNG", "b.png"), ("L", "PNG", "c.png"), ("LA", "PNG", "d.png"), ("P", "PNG", "e.png"), ("1", "PNG", "f.png")]
    forms += [("RGB", "BMP", "g.bmp"), ("L", "BMP", "h.bmp"), ("P", "BMP", "i.bmp"), ("RGB", "PPM", "j.ppm"), ("L", "PPM", "k.pgm"), ("RGB", "PNG", "L.PNG")]
    for mode, kind, name in forms:
        for size in [(1, 1), (3, 2), (5, 7)]:
            files = {f"only/{name}": packed_image(drawn_image(mode, *size), kind)}
            for args, transform in [({}, to_tensor), ({"grayscale": True}, grey)]:
                listed(files, args, transform)
    flat = Image.new("RGB", (8, 16), (128, 128, 128))
    listed({"only/flat.jpg": packed_image(flat, "JPEG")}, {}, to_tensor)
    picture = lambda: packed_image(drawn_image("RGB", 2, 2), "PNG")
    several = {f"{folder}/{name}.png": picture() for folder in ["tulip", "Rose", "ash", "10", "9"] for name in rng.sample(["b", "a", "B", "2", "10", "_"], 3)}
    listed(several, {}, to_tensor)
    listed(several | {"tulip/notes.txt": b"none", "ash/table.csv": b"1,2"}, {}, to_tensor)
    for files in [{"tulip/notes.txt": b"none"}, {"loose.png": picture()}]:
        case("image_folder", args={}, files={name: content.hex() for name, content in files.items()}, error=refusal(folder_of, files))
    for content in [b"", b"\x89PNG\r\n\x1a\n", picture()[:-30], b"text"]:
        files = {"only/a.png": content}
        case("image_folder", args={}, files={"only/a.png": content.hex()}, error=refusal(folder_of, files, transform=to_tensor))
    for size, to in [((6, 4), (2, 3)), ((5, 7), (7, 5)), ((9, 9), (4, 4)), ((3, 3), (8, 5)), ((4, 4), (4, 4)), ((1, 6), (3, 3))]:
        image = drawn_image("RGB", *size)
        # The filter in real numbers; a level of 256 is the nearest to it.
        scaled = torch.nn.functional.interpolate(to_tensor(image).double()[None], to[::-1], mode="bilinear", antialias=True)[0]
        case("image_folder", args={"resize": [to[1], to[0]]}, files={"only/a.png": packed_image(image, "PNG").hex()}, classes=["only"], scaled=[tensor(scaled)], labels=[0])


def listed(files, args, transform):
    classes, items = folder_of(files, transform=transform)
    images, labels = [tensor(image) for image, _ in items], [label for _, label in items]
    case("image_folder", args=args, files={name: content.hex() for name, content in files.items()}, classes=classes, images=images, labels=labels)


# Splits and samplers


def splits():
    counts = [(10, [5, 5]), (10, [10, 0]), (7, [1, 2, 4]), (0, [0, 0]), (5, [5]), (9, [4, 4, 1, 0])]
    shares = [(10, [0.5, 0.5]), (11, [0.8, 0.2]), (7, [0.25, 0.25, 0.25, 0.25]), (3, [0.9, 0.1]), (1, [0.5, 0.5]), (0, [0.3, 0.7]), (100, [0.7, 0.2, 0.1]), (10, [1.0]), (13, [0.1, 0.2, 0.7]), (6, [0.0, 1.0])]
    for n, lengths in counts + shares:
        parts = data.random_split(range(n), lengths)
        case("random_split", args={"len": n, "lengths": lengths}, sizes=[len(part) for part in parts])
    for n, lengths in [(10, [5, 4]), (10, [11]), (10, [0.5, 0.4]), (10, [0.7, 0.7]), (10, [-0.5, 1.5]), (0, [2])]:
        case("random_split", args={"len": n, "lengths": lengths}, error=refusal(data.random_split, range(n), lengths))


def without_replacement(weights, count):
    """The law of each list of items drawn one after the other."""
    laws = {(): 1.0}
    for _ in range(count):
        longer = {}
        for drawn, p in laws.items():
            left = sum(w for i, w in enumerate(weights) if i not in drawn)
            for i, w in enumerate(weights):
                if i not in drawn and w > 0:
                    longer[(*drawn, i)] = longer.get((*drawn, i), 0.0) + p * w / left
        laws = longer
    return laws


def agrees_with_torch(laws, draws):
    """PyTorch's own draws follow these laws, to five deviations."""
    for drawn, p in laws.items():
        n = sum(d == drawn for d in draws)
        assert abs(n - len(draws) * p) <= 5 * (len(draws) * p * (1 - p)) ** 0.5 + 1e-9, (drawn, p, n)


def samplers():
    torch.manual_seed(15)
    for n in [0, 1, 2, 9]:
        case("sampler", args={"sampler": "SequentialSampler", "len": n}, exact=list(data.SequentialSampler(range(n))))
        if n:
            case("sampler", args={"sampler": "RandomSampler", "len": n}, each_once=sorted(data.RandomSampler(range(n))))
    for n, some in [(10, [1, 5, 7]), (3, [2]), (4, []), (3, [2, 2, 0])]:
        case("sampler", args={"sampler": "SubsetRandomSampler", "len": n, "indices": some}, each_once=sorted(data.SubsetRandomSampler(some)))
    for weights in [[1.0, 1.0], [1.0, 0.0, 2.0, 5.0, 0.0], [0.25, 3.0, 0.5], [7.0]]:
        drawn = list(data.WeightedRandomSampler(weights, 20_000))
        laws = without_replacement(weights, 1)
        agrees_with_torch(laws, [(i,) for i in drawn])
        args = {"sampler": "WeightedRandomSampler", "len": len(weights), "weights": weights, "replacement": True}
        for count in [1, 3, 20]:
            case("sampler", args=args | {"num_samples": count}, law=[[list(d), p] for d, p in laws.items()])
        for count in range(1, min(3, sum(w > 0 for w in weights)) + 1):
            laws = without_replacement(weights, count)
            sampler = data.WeightedRandomSampler(weights, count, replacement=False)
            agrees_with_torch(laws, [tuple(sampler) for _ in range(4000)])
            case("sampler", args=args | {"num_samples": count, "replacement": False}, law=[[list(d), p] for d, p in laws.items()])
    for weights, count, again in [([1.0, -1.0], 1, True), ([0.0, 0.0], 1, True), ([1.0, 2.0], 3, False), ([[1.0]], 1, True), ([1.0, float("nan")], 1, True), ([1.0, float("inf")], 1, True)]:
        words = refusal(lambda: list(data.WeightedRandomSampler(weights, count, replacement=again)))
        weights = [w if w == w and w != float("inf") else str(w) for w in weights] if np.ndim(weights) == 1 else weights
        case("sampler", args={"sampler": "WeightedRandomSampler", "len": np.size(weights), "weights": weights, "num_samples": count, "replacement": again}, error=words)
    for sizes, folds in [([50, 50], 10), ([90, 10], 10), ([150, 40, 10], 20), ([12, 7, 5], 4), ([8] * 5, 8), ([60] + [4] * 10, 4), ([20], 5)]:
        labels = [label * 3 - 4 for label, size in enumerate(sizes) for _ in range(size)]
        rng.shuffle(labels)
        counts = []
        for _, fold in StratifiedKFold(folds).split(np.zeros(len(labels)), labels):
            counts.append([sum(labels[i] == label * 3 - 4 for i in fold) for label in range(len(sizes))])
        case("sampler", args={"sampler": "StratifiedSampler", "len": len(labels), "labels": labels, "batch_size": len(labels) // folds}, shares=list(np.mean(counts, axis=0)))


# Loaders


def loaders():
    for n, size, drop_last in [(10, 3, False), (10, 3, True), (9, 3, True), (2, 5, False), (2, 5, True), (0, 4, False), (1, 1, False), (7, 1, True)]:
        for tensors in [[draw((n, 2))], [draw((n,)).float(), torch.arange(n)], [draw((n, 1, 2)), torch.arange(n) % 2 == 0, torch.arange(n)]]:
            loader = data.DataLoader(data.TensorDataset(*tensors), size, drop_last=drop_last)
            batches = [[tensor(part) for part in batch] for batch in loader]
            args = {"batch_size": size, "drop_last": drop_last}
            case("DataLoader", args=args, tensors=[tensor(t) for t in tensors], len=len(loader), batches=batches)
            if n:
                shuffled = data.DataLoader(data.TensorDataset(*tensors), size, shuffle=True, drop_last=drop_last)
                case("DataLoader", args=args | {"shuffle": True}, tensors=[tensor(t) for t in tensors], len=len(shuffled), sizes=[len(batch[0]) for batch in shuffled])
    tensors = [draw((4, 2)), torch.arange(4)]
    case("DataLoader", args={"batch_size": 0}, tensors=[tensor(t) for t in tensors], error=refusal(data.DataLoader, data.TensorDataset(*tensors), 0))
    tensors = [draw((4, 2)), torch.arange(3)]
    case("DataLoader", args={"batch_size": 2}, tensors=[tensor(t) for t in tensors], error=refusal(data.TensorDataset, *tensors))


def datasets():
    for sizes in [[3, 2], [0, 4, 1], [5]]:
        sets = [draw((n, 2)) for n in sizes]
        joined = data.ConcatDataset([data.TensorDataset(t) for t in sets])
        case("ConcatDataset", args={}, sets=[tensor(t) for t in sets], items=[tensor(joined[i][0]) for i in range(len(joined))])
    for indices in [[2, 0], [], [1, 1, 3]]:
        x = draw((4, 3))
        some = data.Subset(data.TensorDataset(x), indices)
        case("Subset", args={"indices": indices}, sets=[tensor(x)], items=[tensor(some[i][0]) for i in range(len(some))])


def plain(batch):
    if isinstance(batch, torch.Tensor):
        return tensor(batch)
    return [plain(part) for part in batch] if isinstance(batch, (tuple, list)) else batch


def collations():
    makers = {
        "tensor": lambda: draw((2, 2)),
        "float": lambda: rng.uniform(-2, 2),
        "int": lambda: rng.randint(-5, 5),
        "bool": lambda: rng.random() < 0.5,
        "text": lambda: rng.choice(["a", "bc", ""]),
        "(tensor, int)": lambda: (draw((3,)).float(), rng.randint(0, 9)),
        "[tensor; 2]": lambda: [draw(()), draw(())],
        "((float, bool), text)": lambda: ((rng.uniform(-2, 2), rng.random() < 0.5), rng.choice("xy")),
    }
    for form, make in makers.items():
        for n in [1, 2, 5]:
            items = [make() for _ in range(n)]
            case("default_collate", args={"form": form}, items=[plain(item) for item in items], batch=plain(data.default_collate(items)))
    for items in [[draw((2,)), draw((3,))], [draw((2,)), draw((2, 1))], []]:
        case("default_collate", args={"form": "tensor"}, items=[tensor(item) for item in items], error=refusal(data.default_collate, items))


def paddings():
    pad = torch.nn.utils.rnn.pad_sequence
    for shapes in [[(3,), (1,), (4,)], [(2, 3), (5, 3)], [(0, 2), (2, 2)], [(1,)], [(0,), (0,)], [(2, 1, 2), (3, 1, 2), (1, 1, 2)]]:
        for kind in [torch.float64, torch.float32, torch.int64]:
            for batch_first, value in [(False, 0), (True, 0), (True, -1), (False, 7)]:
                sequences = [draw(shape, -9.0, 9.0).to(kind) for shape in shapes]
                found = pad(sequences, batch_first=batch_first, padding_value=value)
                case("pad_sequence", args={"batch_first": batch_first, "padding_value": value}, sequences=[tensor(s) for s in sequences], tensor=tensor(found))
    for sequences in [[], [draw((2, 3)), draw((2, 2))], [draw((2, 3)), draw((2,))], [draw(())]]:
        case("pad_sequence", args={}, sequences=[tensor(s) for s in sequences], error=refusal(pad, sequences))


# Scaling


def by_columns(x):
    """Channels of images as columns, as scikit-learn has them; and back."""
    moved = x.movedim(1, -1)
    return moved.reshape(-1, x.shape[1]).numpy(), lambda y: torch.from_numpy(y).reshape(moved.shape).movedim(-1, 1)


def scalings():
    for shape, others in [((8, 3), (3, 3)), ((1, 2), (2, 2)), ((50, 1), (4, 1)), ((4, 2, 3, 3), (2, 2, 3, 3)), ((3, 4, 2), (1, 4, 5))]:
        for kind in [torch.float64, torch.float32]:
            for scale, offset, constant in [(1.0, 0.0, False), (1e-3, 5.0, False), (100.0, -3.0, True)]:
                train, test = (draw(s).mul(scale).add(offset).to(kind) for s in (shape, others))
                if kind is torch.float32 and offset > scale:
                    # A mean in `f32` is farther from that in `f64` than the numbers are from one another.
                    continue
                if constant:
                    train[:, 0] = 0.1
                rows, back = by_columns(train)
                more, more_back = by_columns(test)
                scaler = StandardScaler().fit(rows.astype("float64"))
                apply = lambda rows: scaler.transform(rows.astype("float64"))
                std = np.where(scaler.scale_ == 1.0, np.sqrt(scaler.var_) * (scaler.var_ > 1e-20), scaler.scale_)
                case(
                    "StandardScaler",
                    args={},
                    train=tensor(train),
                    test=tensor(test),
                    mean=tensor(torch.tensor(scaler.mean_).to(kind)),
                    std=tensor(torch.tensor(std).to(kind)),
                    scaled_train=tensor(back(apply(rows)).to(kind)),
                    scaled_test=tensor(more_back(apply(more)).to(kind)),
                    back=tensor(test),
                )
    infinite, empty = torch.tensor([[1.0], [float("inf")]]), torch.zeros(0, 2)
    for bad in [infinite, empty, torch.tensor([1.0, 2.0])]:
        case("StandardScaler", args={}, train=tensor(bad), error=refusal(StandardScaler().fit, bad.numpy()))


def class_numbers():
    for texts in [["dog", "cat", "dog"], ["b", "B", "a", "ä", "z", "Z", "10", "9", ""], ["one"], ["😀", "\uffff", "a"]]:
        encoder = LabelEncoder().fit(texts)
        numbers = torch.tensor(encoder.transform(texts), dtype=torch.int64)
        case("LabelEncoder", args={}, texts=texts, tensor=tensor(numbers), classes=[str(c) for c in encoder.classes_])


for part in [tables, idx_files, npy_files, npz_files, image_folders, splits, samplers, loaders, datasets, collations, paddings, scalings, class_numbers]:
    part()
write_lines("data", lines)
