import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.PutMessageStatus;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/**
 * What RocketMQ makes of a compaction store: one job, as JSON, is the only argument.
 *
 * <pre>
 * {"do":"serve", "root":R, "config":{..}, "topics":{"T":queues}, "append":[{..}],
 *  "compact":true}   loads it with these topics compacted; serves every message, then
 *                    after "append", and then after a compaction run of its own
 * {"do":"consume", "namesrv":A, "topics":{"T":queues}}   every message of a broker
 * </pre>
 *
 * <p>Messages are [queue offset, body in base64, KEYS, physical offset].
 */
public final class CompactionTool {
    private static final int PULL = 7;
    private static final long ROUTE_TIMEOUT_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        JsonObject job = JsonParser.parseString(arguments[0]).getAsJsonObject();
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        try {
            out.println(new Gson().toJson(
                job.get("do").getAsString().equals("serve") ? serve(job) : consume(job)));
            out.flush();
            // As a killed broker leaves it.
            Runtime.getRuntime().halt(0);
        } catch (Throwable failure) {
            // RocketMQ's threads would go on for ever.
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    // ---------------------------------------------------------------- the store

    private static Map<String, Object> serve(JsonObject job) throws Exception {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (Map.Entry<String, JsonElement> topic : job.getAsJsonObject("topics").entrySet()) {
            int queues = topic.getValue().getAsInt();
            TopicConfig config = new TopicConfig(topic.getKey(), queues, queues);
            config.getAttributes().put("cleanup.policy", "COMPACTION");
            topics.put(topic.getKey(), config);
        }
        StoreTool.Store store = new StoreTool.Store(StoreTool.configuration(
            job.get("root").getAsString(), job.getAsJsonObject("config")), topics);
        Map<String, Object> result = new LinkedHashMap<>();
        boolean isLoaded = store.load();
        result.put("loadOk", isLoaded);
        if (!isLoaded) {
            return result;
        }
        store.start();
        store.awaitDispatch();
        result.put("served", all(store, topics));
        for (JsonElement each : job.getAsJsonArray("append")) {
            MessageExtBrokerInner message =
                StoreTool.message(each.getAsJsonObject(), new MessageExtBrokerInner());
            if (store.putMessage(message).getPutMessageStatus() != PutMessageStatus.PUT_OK) {
                throw new IllegalStateException("refused: " + each);
            }
        }
        store.awaitDispatch();
        result.put("appended", all(store, topics));
        if (job.get("compact").getAsBoolean()) {
            compact(store);
            result.put("compacted", all(store, topics));
        }
        // The checkpoint of the positions is written as a broker ends.
        store.shutdown();
        return result;
    }

    private static Map<String, Object> all(
        StoreTool.Store store, Map<String, TopicConfig> topics) {
        Map<String, Object> result = new TreeMap<>();
        for (TopicConfig topic : topics.values()) {
            for (int queue = 0; queue < topic.getReadQueueNums(); queue++) {
                List<Object> messages = messages(store, topic.getTopicName(), queue);
                if (!messages.isEmpty()) {
                    result.put(topic.getTopicName() + "/" + queue, messages);
                }
            }
        }
        return result;
    }

    private static List<Object> messages(StoreTool.Store store, String topic, int queue) {
        List<Object> found = new ArrayList<>();
        long at = 0;
        while (true) {
            GetMessageResult pulled = store.getMessage("group", topic, queue, at, PULL, null);
            if (pulled.getStatus() != GetMessageStatus.FOUND) {
                return found;
            }
            for (SelectMappedBufferResult each : pulled.getMessageMapedList()) {
                ByteBuffer bytes = each.getByteBuffer();
                found.add(line(MessageDecoder.decode(bytes, true, false)));
            }
            pulled.release();
            at = pulled.getNextBeginOffset();
        }
    }

    private static List<Object> line(MessageExt message) {
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody();
        return List.of(message.getQueueOffset(), Base64.getEncoder().encodeToString(body),
            String.valueOf(message.getKeys()), message.getCommitLogOffset());
    }

    /** What a schedule of minutes would do. */
    private static void compact(StoreTool.Store store) throws Exception {
        Field field = DefaultMessageStore.class.getDeclaredField("compactionStore");
        field.setAccessible(true);
        Object compactions = field.get(store);
        Field table = compactions.getClass().getDeclaredField("compactionLogTable");
        table.setAccessible(true);
        for (Object log : ((Map<?, ?>) table.get(compactions)).values()) {
            Method run = log.getClass().getDeclaredMethod("doCompaction");
            run.setAccessible(true);
            run.invoke(log);
        }
    }

    // --------------------------------------------------------------- the broker

    /** A broker tells its name server of its topics a moment after it is up. */
    private static Set<MessageQueue> queues(DefaultMQPullConsumer consumer, String topic)
        throws Exception {
        long deadline = System.currentTimeMillis() + ROUTE_TIMEOUT_MS;
        while (true) {
            try {
                return new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic));
            } catch (MQClientException unknown) {
                if (System.currentTimeMillis() > deadline) {
                    throw unknown;
                }
                Thread.sleep(50);
            }
        }
    }

    private static Map<String, Object> consume(JsonObject job) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("compaction-consumer");
        consumer.setNamesrvAddr(job.get("namesrv").getAsString());
        consumer.setVipChannelEnabled(false);
        consumer.start();
        Map<String, Object> result = new TreeMap<>();
        Set<String> statuses = new TreeSet<>();
        for (String topic : job.getAsJsonObject("topics").keySet()) {
            for (MessageQueue queue : queues(consumer, topic)) {
                List<Object> found = new ArrayList<>();
                long at = consumer.minOffset(queue);
                while (true) {
                    PullResult pulled = consumer.pull(queue, "*", at, PULL);
                    if (pulled.getPullStatus() != PullStatus.FOUND) {
                        statuses.add(pulled.getPullStatus().name());
                        break;
                    }
                    pulled.getMsgFoundList().forEach(each -> found.add(line(each)));
                    at = pulled.getNextBeginOffset();
                }
                if (!found.isEmpty()) {
                    result.put(topic + "/" + queue.getQueueId(), found);
                }
            }
        }
        return Map.of("consumed", result, "endedWith", statuses);
    }
}
