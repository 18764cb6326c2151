-- Some bids in euros, with the part of the day and a count of letters.
CREATE VIEW q14 AS
  SELECT STREAM auction, bidder, euros,
    CASE WHEN hour_of_day BETWEEN 8 AND 18 THEN 'dayTime'
      WHEN hour_of_day <= 6 OR hour_of_day >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
    date_time, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
  FROM (SELECT STREAM auction, bidder, price * 0.908 AS euros, EXTRACT(HOUR FROM date_time) AS hour_of_day,
      date_time, extra FROM bid) AS b
  WHERE euros > 1000000 AND euros < 50000000;
