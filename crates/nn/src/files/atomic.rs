//! Files that appear whole or not at all, whatever happens while they are written.
//!
//! Note [Whole files]
//! The bytes go to a temporary file in the same folder, which is synchronised with the disk and then renamed: a reader finds
//! the old file or the new one, and so does a program that starts after this one was killed or the machine lost its power. A
//! writer holds a lock on its temporary file, which the system lifts when the process ends in whatever way: one that can be
//! locked is a dead writer's, and the next writer of the same file removes it.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use foldback_tensor::{Error, Here, IoFacts, Kind};

use crate::error::Result;

/// Writes a file whole or not at all: what stood at the path stays until every byte of the new file is on the disk.
///
/// What `write` writes goes to a temporary file in the same folder, `.name.*.tmp`, which then takes the name of the file. One that a
/// killed program has left there is removed by the next one that writes the same file. `write` is called again if somebody has
/// removed the temporary file meanwhile.
///
/// # Errors
/// Of kind `Io`, with the path, as the operating system says; whatever `write` returns.
///
/// ```
/// use foldback_nn::write_atomically;
/// let path = std::env::temp_dir().join(format!("foldback-atomic-{}.txt", std::process::id()));
/// write_atomically(&path, |out| Ok(out.write_all(b"whole")?))?;
/// assert!(write_atomically(&path, |out| {
///     out.write_all(b"ha")?;
///     Err(foldback_nn::Error::other("half of it"))
/// }).is_err());
/// assert_eq!(std::fs::read(&path)?, b"whole");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn write_atomically(path: impl AsRef<Path>, write: impl Fn(&mut dyn Write) -> Result<()>) -> Result<()> {
    write_named("write_atomically", path.as_ref(), &write).or_here()
}

/// [`write_atomically`] in the name of another operation.
#[doc(hidden)]
pub fn write_named(
    op: &'static str,
    path: &Path,
    write: &dyn Fn(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    write_on(&System, op, path, write)
}

/// What makes a file last, in the order of Note [Whole files]. Tests put another in its place, which sees that order.
trait Disk {
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        sync_folder(folder)
    }
}

struct System;

impl Disk for System {}

fn write_on(
    disk: &dyn Disk,
    op: &'static str,
    path: &Path,
    write: &dyn Fn(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let failed = |e: io::Error| IoFacts::writing(op, path.display(), &e);
    // A link stays one: the file behind it is replaced.
    let target = followed(path);
    let Some(name) = target.file_name() else {
        return Err(failed(io::Error::new(ErrorKind::InvalidInput, "this names no file")));
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    remove_leftovers(folder, &prefix(name));
    loop {
        let (temporary, file) = Temporary::new(folder, name).map_err(failed)?;
        let mut out = BufWriter::with_capacity(1 << 16, &file);
        write(&mut out).map_err(|e| about_file(op, path, e))?;
        out.flush().and_then(|()| disk.sync(&file)).map_err(failed)?;
        drop(out);
        match disk.rename(&temporary.0, &target) {
            // Between its making and its locking somebody took it for a leftover.
            Err(e) if e.kind() == ErrorKind::NotFound && folder.exists() => continue,
            done => done.and_then(|()| disk.sync_folder(folder)).map_err(failed)?,
        }
        return Ok(());
    }
}

/// What links lead to, even if there is nothing yet.
fn followed(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&target) else { break };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    target
}

/// An error of the disk gets the path; any other stays as it is.
fn about_file(op: &'static str, path: &Path, error: Error) -> Error {
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(of_disk) if error.kind() == Kind::Io => IoFacts::writing(op, path.display(), of_disk),
        _ => error,
    }
}

/// A file that goes away with this, unless it has another name by then.
struct Temporary(PathBuf);

impl Temporary {
    fn new(folder: &Path, name: &OsStr) -> io::Result<(Temporary, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let mut own = prefix(name);
            own.push(format!("{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
            let path = folder.join(own);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    // Where files cannot be locked, leftovers stay.
                    let _ = file.try_lock();
                    return Ok((Temporary(path), file));
                }
                // Of another process that had this number, or on another machine.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// How the names of temporary files of this file begin.
fn prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// Removes temporary files of dead writers whose names begin so. A folder that cannot be looked through is left as it is.
#[doc(hidden)]
pub fn remove_leftovers(folder: &Path, prefix: &OsStr) {
    let is_ours = |found: &OsStr| {
        let found = found.as_encoded_bytes();
        found.starts_with(prefix.as_encoded_bytes()) && found.ends_with(b".tmp")
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_ours(&entry.file_name())
            && let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a folder, and those it is in, so that they stay when the power fails: the name of each reaches the disk.
///
/// # Errors
/// As the operating system says.
#[doc(hidden)]
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), create_folder)?;
    match fs::create_dir(folder) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
        done => done?,
    }
    sync_folder(parent.unwrap_or(Path::new(".")))
}

/// The new name reaches the disk with the folder.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Folders cannot be opened as files elsewhere.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    static BYTES: [u8; 100_000] = [7; 100_000];

    /// The system's, with what it was asked for in order; one of these it refuses.
    #[derive(Default)]
    struct Watched {
        seen: RefCell<Vec<&'static str>>,
        refused: Option<&'static str>,
    }

    impl Watched {
        fn note(&self, what: &'static str) -> io::Result<()> {
            self.seen.borrow_mut().push(what);
            if self.refused == Some(what) { Err(io::Error::other("no room")) } else { Ok(()) }
        }
    }

    impl Disk for Watched {
        fn sync(&self, file: &File) -> io::Result<()> {
            assert_eq!(
                file.metadata()?.len(),
                BYTES.len() as u64,
                "bytes that come later are not synchronised"
            );
            self.note("sync").and_then(|()| System.sync(file))
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            assert_eq!(from.parent(), to.parent(), "a folder has a disk of its own");
            self.note("rename").and_then(|()| System.rename(from, to))
        }
        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            self.note("sync folder").and_then(|()| System.sync_folder(folder))
        }
    }

    #[test]
    fn folders_within_folders() {
        let outer = std::env::temp_dir().join(format!("foldback-folders-{}", std::process::id()));
        let inner = outer.join("a").join("b");
        create_folder(&inner).unwrap();
        create_folder(&inner).unwrap();
        fs::write(inner.join("file"), b"").unwrap();
        assert_eq!(create_folder(&inner.join("file")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(create_folder(&inner.join("file").join("c")).is_err());
        fs::remove_dir_all(outer).unwrap();
    }

    #[test]
    fn a_file_is_on_the_disk_before_its_name_is() {
        let folder = std::env::temp_dir().join(format!("foldback-order-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("file");
        let order = ["sync", "rename", "sync folder"];
        for (at, refused) in order.into_iter().enumerate() {
            fs::write(&path, b"before").unwrap();
            let disk = Watched { refused: Some(refused), ..Watched::default() };
            let e = write_on(&disk, "save", &path, &|out| Ok(out.write_all(&BYTES)?)).unwrap_err();
            assert!(e.kind() == Kind::Io && e.to_string().contains("no room"), "{e}");
            assert_eq!(disk.seen.into_inner(), order[..=at]);
            // With the new name the new bytes are there; until then the old ones are, and nothing is left beside them.
            assert_eq!(fs::read(&path).unwrap() == BYTES, refused == "sync folder");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        }
        let disk = Watched::default();
        write_on(&disk, "save", &path, &|out| Ok(out.write_all(&BYTES)?)).unwrap();
        assert_eq!(disk.seen.into_inner(), order);
        fs::remove_dir_all(folder).unwrap();
    }
}
