use super::Operation;
pub(super) const ROWS: &[Operation] = &[];
