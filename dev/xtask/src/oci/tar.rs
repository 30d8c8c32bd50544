//! As much of the tar format (ustar) as an image needs: folders and files that root owns, with one fixed time, so that
//! the same content is the same archive.

/// The size that everything in an archive is a multiple of.
const BLOCK: usize = 512;

/// What a header has room for: longer names need an extension of the format.
const LONGEST_NAME: usize = 100;

/// An archive that is being written.
#[derive(Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    /// Adds a folder. Its content follows.
    pub fn folder(&mut self, path: &str) {
        self.folder_for(path, 0o755);
    }

    /// Adds a folder with other rights.
    pub fn folder_for(&mut self, path: &str, mode: u32) {
        self.header(&format!("{path}/"), b'5', mode, 0);
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.header(path, b'0', mode, content.len());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    /// The archive, which ends with two empty blocks.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }

    fn header(&mut self, name: &str, kind: u8, mode: u32, size: usize) {
        assert!(name.len() < LONGEST_NAME, "{name} fits into a header");
        assert!(size < 1 << 33, "{name} is less than 8 GiB");
        let mut block = [0; BLOCK];
        let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{size:011o}"));
        put(136, "00000000000");
        // While the sum is made, its own field counts as blanks.
        put(148, "        ");
        put(257, "ustar\x0000");
        block[156] = kind;
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_systems_own_tar_reads_what_is_written() {
        let mut tar = Tar::default();
        tar.folder("etc");
        tar.file("etc/passwd", 0o644, b"root\n");
        tar.file("program", 0o755, &[7; 1025]);
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a.tar");
        fs::write(&archive, tar.finish()).unwrap();
        let status =
            Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(fs::read(folder.path().join("etc/passwd")).unwrap(), b"root\n");
        assert_eq!(fs::read(folder.path().join("program")).unwrap(), [7; 1025]);
        let mode = fs::metadata(folder.path().join("program")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn an_archive_is_whole_blocks_and_ends_with_two_empty_ones() {
        let mut tar = Tar::default();
        tar.file("a", 0o644, &[1; 513]);
        let bytes = tar.finish();
        assert_eq!(bytes.len(), BLOCK * (1 + 2 + 2));
        assert!(bytes[BLOCK * 3..].iter().all(|byte| *byte == 0));
    }
}
