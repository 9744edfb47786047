//! CSV: columns by name as tensors, labels and texts.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};
use foldback_tensor::{DType, Datum, Here, Tensor, refuse};

use super::{Source, encode_labels, unpacked};
use crate::error::{DataFacts, Result};

/// How a CSV file is written: with a first line of names and commas, unless told otherwise.
///
/// ```
/// use foldback_data::Csv;
/// use foldback_tensor::{DType, tensor};
/// let text = "width;height;kind\n1.5;2;b\n3;4;a\n";
/// let table = Csv::new().delimiter(b';').from_reader(text.as_bytes())?;
/// assert_eq!(table.columns(["height", "width"])?, tensor![[2.0, 1.5], [4.0, 3.0]]);
/// assert_eq!(table.column_with("height", DType::I64)?, tensor![2, 4; i64]);
/// let (labels, classes) = table.labels("kind")?;
/// assert_eq!((labels, classes), (tensor![1, 0; i64], vec!["a".to_owned(), "b".to_owned()]));
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Csv {
    delimiter: u8,
    headers: bool,
}

impl Default for Csv {
    fn default() -> Csv {
        Csv::new()
    }
}

impl Csv {
    /// With a first line of names, and commas.
    pub fn new() -> Csv {
        Csv { delimiter: b',', headers: true }
    }

    /// What stands between two fields. The default is a comma.
    #[must_use]
    pub fn delimiter(mut self, delimiter: u8) -> Csv {
        self.delimiter = delimiter;
        self
    }

    /// Whether the first line holds the names of the columns; otherwise they are `0`, `1`, ... The default is true.
    #[must_use]
    pub fn headers(mut self, headers: bool) -> Csv {
        self.headers = headers;
        self
    }

    /// Reads a file. One compressed by gzip is read with the feature `gzip`.
    ///
    /// # Errors
    /// `File` if a line has another number of fields than the first, or is not UTF-8, or a name stands twice in the first
    /// line; whatever the system says about reading it.
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Table> {
        let table = |(file, reader)| {
            let reader = unpacked(&file, reader)?;
            self.read(file, reader)
        };
        Source::open("csv", path.as_ref()).and_then(table).or_here()
    }

    /// Reads what this reader gives, such as a string's `as_bytes()`; texts name no file then.
    ///
    /// # Errors
    /// Those of [`Csv::open`].
    #[track_caller]
    pub fn from_reader(&self, reader: impl Read) -> Result<Table> {
        self.read(Source { op: "csv", file: String::new() }, reader).or_here()
    }

    fn read(&self, file: Source, mut reader: impl Read) -> Result<Table> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(|e| file.failed(e))?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut reader =
            ReaderBuilder::new().delimiter(self.delimiter).has_headers(self.headers).from_reader(text);
        let first = reader.headers().cloned().or_else(|e| file.malformed(e.to_string()))?;
        let names: Vec<String> = if self.headers {
            first.iter().map(|name| name.trim().to_owned()).collect()
        } else {
            (0..first.len()).map(|i| i.to_string()).collect()
        };
        let mut places = HashMap::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            if places.insert(name.clone(), place).is_some() {
                return file
                    .malformed(format!("its first line has two columns of the name `{name}`: rename one"));
            }
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.or_else(|e| file.malformed(e.to_string()))?;
            rows.push((line_of(&record, text), record));
        }
        Ok(Table { file, names, places, rows })
    }
}

/// The line a record begins on. What it says of itself is where the one before it ended: empty lines lie between.
fn line_of(record: &StringRecord, text: &[u8]) -> u64 {
    record.position().map_or(0, |position| {
        let after = text.get(position.byte() as usize..).unwrap_or_default();
        let between = after.iter().take_while(|b| matches!(b, b'\n' | b'\r'));
        position.line() + between.filter(|&&b| b == b'\n').count() as u64
    })
}

/// Names for an error: the first ones, if there are many.
fn shown(names: &[String]) -> String {
    let first = names[..names.len().min(100)].join(", ");
    match names.len().saturating_sub(100) {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}

/// The rows of a CSV file, see [`Csv`].
#[derive(Clone, Debug)]
pub struct Table {
    file: Source,
    names: Vec<String>,
    /// where each name stands among them
    places: HashMap<String, usize>,
    /// with the lines that they begin on
    rows: Vec<(u64, StringRecord)>,
}

impl Table {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// A column of numbers, `[n]` of `f32`.
    ///
    /// # Errors
    /// `Parameter` if there is no such column; `File` if a field is empty or no number, with its line and column.
    #[track_caller]
    pub fn column(&self, name: &str) -> Result<Tensor> {
        self.column_with(name, DType::F32).here()
    }

    /// A column, `[n]` of this type; truth values are `true` and `false`, `1` and `0`.
    ///
    /// # Errors
    /// Those of [`Table::column`].
    #[track_caller]
    pub fn column_with(&self, name: &str, dtype: DType) -> Result<Tensor> {
        self.columns_with([name], dtype).and_then(|t| t.squeeze(1)).here()
    }

    /// Columns of numbers beside one another, `[n, columns]` of `f32`.
    ///
    /// # Errors
    /// Those of [`Table::column`].
    #[track_caller]
    pub fn columns(&self, names: impl IntoIterator<Item: AsRef<str>>) -> Result<Tensor> {
        self.columns_with(names, DType::F32).here()
    }

    /// Columns beside one another, `[n, columns]` of this type.
    ///
    /// # Errors
    /// Those of [`Table::column`].
    #[track_caller]
    pub fn columns_with(&self, names: impl IntoIterator<Item: AsRef<str>>, dtype: DType) -> Result<Tensor> {
        let places =
            names.into_iter().map(|name| self.place(name.as_ref())).collect::<Result<Vec<_>>>().here()?;
        match dtype {
            DType::F32 => self.numbers(&places, "a number", |text| text.parse::<f32>().ok()),
            DType::F64 => self.numbers(&places, "a number", |text| text.parse::<f64>().ok()),
            DType::I64 => self.numbers(&places, "an integer", |text| text.parse::<i64>().ok()),
            DType::Bool => self.numbers(&places, "true or false", |text| match text {
                "true" | "True" | "TRUE" | "1" => Some(true),
                "false" | "False" | "FALSE" | "0" => Some(false),
                _ => None,
            }),
        }
        .here()
    }

    /// A column of texts, as they stand.
    ///
    /// # Errors
    /// `Parameter` if there is no such column.
    #[track_caller]
    pub fn texts(&self, name: &str) -> Result<Vec<&str>> {
        let place = self.place(name).here()?;
        Ok(self.rows.iter().map(|(_, record)| record.get(place).unwrap_or("")).collect())
    }

    /// A column of names of classes as class numbers, see [`encode_labels`]; spaces around a name are no part of it.
    ///
    /// # Errors
    /// `Parameter` if there is no such column; `File` if a field is empty, with its line and column.
    #[track_caller]
    pub fn labels(&self, name: &str) -> Result<(Tensor, Vec<String>)> {
        let place = self.place(name).here()?;
        let names = self.rows.iter().map(|row| self.field(row, place)).collect::<Result<Vec<_>>>().here()?;
        Ok(encode_labels(&names))
    }

    fn place(&self, name: &str) -> Result<usize> {
        match self.places.get(name) {
            Some(place) => Ok(*place),
            None => refuse(DataFacts::Parameter {
                op: "table",
                name: "column",
                found: format!("`{name}`"),
                expected: match &self.file.file[..] {
                    "" => format!("one of {}", shown(&self.names)),
                    file => format!("one of the columns of {file}: {}", shown(&self.names)),
                },
            }),
        }
    }

    fn field<'a>(&self, row: &'a (u64, StringRecord), place: usize) -> Result<&'a str> {
        let text = row.1.get(place).unwrap_or("").trim();
        if text.is_empty() {
            return self.wrong(row, place, "is empty: fill it in, or leave the row out");
        }
        Ok(text)
    }

    fn wrong<T>(&self, (line, _): &(u64, StringRecord), place: usize, what: &str) -> Result<T> {
        self.file.malformed(format!("line {line}, column `{}` {what}", self.names[place]))
    }

    fn numbers<T: Datum>(
        &self,
        places: &[usize],
        wanted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Tensor> {
        let mut numbers = Vec::with_capacity(self.rows.len().saturating_mul(places.len()));
        for row in &self.rows {
            for &place in places {
                let text = self.field(row, place)?;
                match parse(text) {
                    Some(number) => numbers.push(number),
                    None => return self.wrong(row, place, &format!("is `{text}`, expected {wanted}")),
                }
            }
        }
        Tensor::from_vec(numbers, [self.rows.len(), places.len()])
    }
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Kind, refused, tensor};

    use super::super::testing::Temporary;
    use super::*;

    const TEXT: &str = "id, width,kind,ok\n1,0.5,\"b, or c\",true\n2,-1e3,a,False\n";

    fn words<T>(result: Result<T>) -> String {
        result.map(|_| ()).unwrap_err().with_location(None).to_string()
    }

    #[test]
    fn columns_by_name_and_type() {
        let on_disk = Temporary::new("table.csv", TEXT);
        let table = Csv::default().open(&on_disk.0).unwrap();
        let missing = table.column("nothing").unwrap_err().to_string();
        assert!(
            missing.contains("table.csv: ") && missing.contains("expected one of the columns of "),
            "{missing}"
        );
        assert_eq!(
            (table.len(), table.is_empty(), table.names().join(" ")),
            (2, false, "id width kind ok".into())
        );
        assert_eq!(table.column("width").unwrap(), tensor![0.5, -1000.0]);
        assert_eq!(
            table.columns_with(["id", "width"], DType::F64).unwrap(),
            tensor![[1.0, 0.5], [2.0, -1000.0]; f64]
        );
        assert_eq!(table.column_with("id", DType::I64).unwrap(), tensor![1, 2; i64]);
        assert_eq!(table.column_with("ok", DType::Bool).unwrap(), tensor![true, false]);
        assert_eq!(table.texts("kind").unwrap(), ["b, or c", "a"]);
        assert_eq!(table.labels("kind").unwrap().0, tensor![1, 0; i64]);
        let bare = Csv::new().headers(false).from_reader(&b"1,2\n3,4\n"[..]).unwrap();
        assert_eq!(bare.columns(bare.names()).unwrap(), tensor![[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(
            Csv::new().from_reader(&b"a,b\n"[..]).unwrap().columns(["b", "a"]).unwrap().dims(),
            [0, 2]
        );
        assert!(Csv::new().from_reader(&b""[..]).unwrap().is_empty());
    }

    #[test]
    fn spaces_make_no_other_class() {
        let table = Csv::new().from_reader(&b"kind,x\n a,1\nb ,2\na,3\n"[..]).unwrap();
        let (labels, classes) = table.labels("kind").unwrap();
        assert_eq!((labels, classes.join("|")), (tensor![0, 1, 0; i64], "a|b".to_owned()));
        assert_eq!(table.texts("kind").unwrap(), [" a", "b ", "a"]);
    }

    #[cfg(feature = "gzip")]
    #[test]
    fn a_compressed_file() {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(b"1,2\n3,4\n").unwrap();
        let on_disk = Temporary::new("table.csv.gz", packer.finish().unwrap());
        let table = Csv::new().headers(false).open(&on_disk.0).unwrap();
        assert_eq!(table.columns(table.names()).unwrap(), tensor![[1.0, 2.0], [3.0, 4.0]]);
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_column() {
        let read = |text: &str| Csv::new().from_reader(text.as_bytes());
        let table = read("\u{feff}x,y\r\n1,2\r\n\r\n3,\r\n4,five\r\n").unwrap();
        let empty = "csv: line 4, column `y` is empty: fill it in, or leave the row out";
        assert_eq!(words(table.column("y")), empty);
        assert_eq!(words(table.labels("y")), empty);
        let table = read("x,y\n1,2\n4,1.5\n").unwrap();
        assert_eq!(
            words(table.column_with("y", DType::I64)),
            "csv: line 3, column `y` is `1.5`, expected an integer"
        );
        assert_eq!(
            words(table.column_with("y", DType::Bool)),
            "csv: line 2, column `y` is `2`, expected true or false"
        );
        let e = table.column("z").unwrap_err();
        assert!(e.location().is_some_and(|at| at.file() == file!()));
        assert_eq!(words(table.column("z")), "table: column = `z` is not valid: expected one of x, y");
        assert!(refused!(read("x,x\n1,2\n"), DataFacts::File { .. }));
        // As many columns as a file can have.
        let wide: Vec<String> = (0..200_000).map(|i| i.to_string()).collect();
        let wide = read(&format!("{0}\n{0}\n", wide.join(","))).unwrap();
        assert_eq!(wide.columns(wide.names()).unwrap().dims(), [1, 200_000]);
        assert!(words(wide.column("x")).ends_with("98, 99, and 199900 more"));
        assert!(words(read("x,y\n1\n")).contains("line: 2"));
        assert!(words(Csv::new().from_reader(&b"x\n\xff\n"[..])).contains("UTF-8"));
        assert_eq!(Csv::new().open("no/such/file").unwrap_err().kind(), Kind::Io);
    }
}
