//! Times as text, in UTC.

use nandkit_vfs::Timestamp;

const DAY: i64 = 86_400;

/// A time as text: `2021-03-04 05:06:07`.
pub fn utc(time: Timestamp) -> String {
    let seconds = time.0.div_euclid(1_000_000_000);
    let (day, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(day);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. The computation
/// begins years in March, so that a leap day is the last of its year.
const fn date(day: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01; 400 years have 146,097 days.
    let day = day + 719_468;
    let (cycle, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let in_month = day - (153 * month + 2) / 5 + 1;
    let (month, over) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + over, month, in_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_date_prints_them() {
        // date -u -d @N '+%F %T'
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (1_700_000_000, "2023-11-14 22:13:20"),
            (-1, "1969-12-31 23:59:59"),
            (4_294_967_295, "2106-02-07 06:28:15"),
        ] {
            assert_eq!(utc(Timestamp(seconds * 1_000_000_000)), expected, "{seconds}");
        }
    }
}
